// Compares a text with the file tests/results/golden/NAME, or writes that file where
// ALLOCMARK_APPROVE_GOLDENS is 1 (scripts/check/approve_goldens.sh). Tests run in the repository's
// root folder.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/catch.h"

namespace allocmark {

[[nodiscard]] inline std::string read_golden(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Compares with a file of the repository, or writes it.
inline void check_file(const std::string& path, const std::string& text) {
  const char* const approve = std::getenv("ALLOCMARK_APPROVE_GOLDENS");
  if (approve != nullptr && std::string_view(approve) == "1") {
    std::ofstream(path, std::ios::binary) << text;
  }
  INFO("differs from " << path << "; if it is right, run scripts/check/approve_goldens.sh");
  CHECK(text == read_golden(path));
}

inline void check_golden(const std::string& name, const std::string& text) {
  check_file("tests/results/golden/" + name, text);
}

}  // namespace allocmark
