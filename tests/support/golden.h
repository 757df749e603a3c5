// Compares a text with the file tests/results/golden/NAME, or writes that file where
// ALLOCMARK_APPROVE_GOLDENS is 1 (scripts/approve_goldens.sh). Tests run in the repository's root
// folder.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/catch.h"

namespace allocmark {

inline void check_golden(const std::string& name, const std::string& text) {
  const std::string path = "tests/results/golden/" + name;
  const char* const approve = std::getenv("ALLOCMARK_APPROVE_GOLDENS");
  if (approve != nullptr && std::string_view(approve) == "1") {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::ifstream stream(path, std::ios::binary);
  const std::string golden{std::istreambuf_iterator<char>(stream),
                           std::istreambuf_iterator<char>()};
  INFO("differs from " << path << "; if the new text is right, run scripts/approve_goldens.sh");
  CHECK(text == golden);
}

}  // namespace allocmark
