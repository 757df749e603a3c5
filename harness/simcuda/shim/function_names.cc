#include "harness/simcuda/shim/function_names.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include "base/nearest.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/library.h"

namespace simcuda {
namespace {

std::vector<std::string> implemented_names() {
  std::vector<std::string> names;
  for (const ApiRecord* api = first_api(); api != nullptr; api = api->next) {
    names.emplace_back(api->name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void* own_function(const std::string& name) {
  // The C library's handles are its link maps. A dlopen would go through simcuda-run's.
  static void* const self = [] {
    Dl_info info{};
    void* module = nullptr;
    dladdr1(reinterpret_cast<void*>(&start_library), &info, &module, RTLD_DL_LINKMAP);
    return module;
  }();
  return dlsym(self, name.c_str());
}

bool is_exported(const std::string& name) {
  return find_api(name) != nullptr ||
         ((name.starts_with("cu") || name.starts_with("nvml")) && own_function(name) != nullptr);
}

std::string no_such_function(const std::string& name) {
  return "no function '" + name + "'; " + allocmark::suggest(name, implemented_names());
}

std::string wrong_fault_name(const std::string& name) {
  if (find_api(name) != nullptr) return {};
  return is_exported(name) ? name + " is not implemented by simcuda: each call of it fails anyway"
                           : no_such_function(name);
}

}  // namespace simcuda
