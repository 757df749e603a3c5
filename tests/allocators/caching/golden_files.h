// Reads goldens for the tests of this folder.
#pragma once

#include <map>
#include <string>

namespace allocmark::caching {

// The recorded answers to a program, name of the file -> contents.
[[nodiscard]] std::map<std::string, std::string> read_goldens(const std::string& program);

}  // namespace allocmark::caching
