// A plugin of ours: a shared library beside the program that was built against somebody else's
// allocator and hands over a table of functions. Torch and RMM come this way, so that the suite
// itself neither needs nor links them.
#pragma once

#include <string>

namespace allocmark {

// The file that the environment variable names, else `file_name` in the library folder beside the
// program's own. The file need not exist.
[[nodiscard]] std::string plugin_library_path(const char* variable, const char* file_name);

struct PluginTable {
  const void* table = nullptr;  // lives as long as the process
  std::string problem;          // why there is none
};

// Loads the library and calls `entry_symbol`, a function without arguments that returns a table
// whose first member is an int, its version.
[[nodiscard]] PluginTable load_plugin_table(const std::string& path, const char* entry_symbol,
                                            int version);

}  // namespace allocmark
