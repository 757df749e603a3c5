// One line of a captured trace, made without heap and without locale, since a program may be about
// to end.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "harness/tools/capture/preload/trace_file.h"

namespace allocmark_capture {

struct Row {
  explicit Row(std::string_view operation) { text(operation); }
  Row& text(std::string_view part) {
    std::memcpy(bytes + size, part.data(), part.size());
    size += part.size();
    return *this;
  }
  Row& number(std::uint64_t value) {
    if (size + kNumberBytesMax > sizeof bytes) return *this;
    bytes[size++] = ',';
    size = static_cast<std::size_t>(std::to_chars(bytes + size, bytes + sizeof bytes, value).ptr -
                                    bytes);
    return *this;
  }
  static constexpr std::size_t kNumberBytesMax = 21;  // with its comma
  char bytes[TraceFile::kRowBytesMax];
  std::size_t size = 0;
};

}  // namespace allocmark_capture
