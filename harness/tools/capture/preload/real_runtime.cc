#include "harness/tools/capture/preload/real_runtime.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "harness/tools/capture/preload/recorder.h"

namespace allocmark_capture {
namespace {

// A runtime that an extension module of Python brought along is in no scope that RTLD_NEXT sees.
int note_runtime(dl_phdr_info* info, std::size_t, void* path) {
  const std::string_view name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (name.find("libcudart.so") == std::string_view::npos) return 0;
  *static_cast<std::string*>(path) = name;
  return 1;
}

}  // namespace

void* find_in_runtime(const char* name) {
  if (void* const next = dlsym(RTLD_NEXT, name); next != nullptr) return next;
  std::string path;
  dl_iterate_phdr(note_runtime, &path);
  if (!path.empty()) {
    void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    void* const found = library == nullptr ? nullptr : dlsym(library, name);
    if (found != nullptr) return found;
  }
  say(std::string("the program calls ") + name + ", and no CUDA runtime that it has loaded has it");
  std::abort();
}

}  // namespace allocmark_capture
