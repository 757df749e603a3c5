// Libraries that simcuda opens for itself. In: a name. Out: a handle.
#pragma once

#include <dlfcn.h>

namespace simcuda {

// The C library looks the name up for whoever calls it: beside this library, then in the system.
// What stands in front of its dlopen, a sanitizer's or the launcher's, would hide that it is us.
// Null where there is none.
[[nodiscard]] inline void* open_library(const char* name) {
  void* const c_library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  auto open = c_library == nullptr
                  ? nullptr
                  : reinterpret_cast<decltype(&dlopen)>(dlsym(c_library, "dlopen"));
  if (open == nullptr) open = &dlopen;
  return open(name, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace simcuda
