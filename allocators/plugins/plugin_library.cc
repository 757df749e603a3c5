#include "allocators/plugins/plugin_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace allocmark {

std::string plugin_library_path(const char* variable, const char* file_name) {
  if (const char* const path = std::getenv(variable); path != nullptr) return path;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path().parent_path() / "lib" / file_name).string();
}

PluginTable load_plugin_table(const std::string& path, const char* entry_symbol, int version) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {.table = nullptr, .problem = std::string("the plugin does not load: ") + dlerror()};
  }
  using Entry = const void* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, entry_symbol));
  if (entry == nullptr) {
    return {.table = nullptr, .problem = path + " has no function " + entry_symbol};
  }
  const void* const table = entry();
  if (const int got = *static_cast<const int*>(table); got != version) {
    return {.table = nullptr,
            .problem = path + " is of version " + std::to_string(got) + ", wanted " +
                       std::to_string(version)};
  }
  return {.table = table, .problem = {}};
}

}  // namespace allocmark
