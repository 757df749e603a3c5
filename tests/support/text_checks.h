// What tests ask of texts.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace allocmark {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What the Error that the call throws says; empty where it throws none.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace allocmark
