// What both interfaces of the torch plugin share: what c10 throws becomes a status and a text.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "allocators/plugins/torch_plugin/plugin.h"

namespace allocmark_torch {

inline std::string last_error_text;

// Throws where the loaded libc10_cuda.so is not the one that the plugin was built against.
void require_own_library();

// Runs `body`; what it throws becomes a status.
template <typename Body>
int guarded(Body body) {
  try {
    body();
    return kAllocmarkPluginOk;
  } catch (const c10::OutOfMemoryError& error) {
    last_error_text = error.what_without_backtrace();
    return kAllocmarkPluginOutOfMemory;
  } catch (const c10::Error& error) {
    last_error_text = error.what_without_backtrace();
    return kAllocmarkPluginError;
  } catch (const std::exception& error) {
    last_error_text = error.what();
    return kAllocmarkPluginError;
  }
}

}  // namespace allocmark_torch
