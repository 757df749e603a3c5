// Lines of a gzip file for the replay tests. In: a path relative to the project's root. Out: the
// lines, without ends.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace simcuda {

inline std::vector<std::string> read_gz_lines(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    throw std::runtime_error(path + ": cannot be opened; run the test from the project's root");
  }
  std::vector<std::string> lines(1);
  for (int byte = gzgetc(file); byte != -1; byte = gzgetc(file)) {
    if (byte == '\n') {
      lines.emplace_back();
    } else {
      lines.back().push_back(static_cast<char>(byte));
    }
  }
  gzclose(file);
  if (lines.back().empty()) {
    lines.pop_back();
  }
  return lines;
}

// The fields of a line; an empty last field counts.
inline std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == separator) {
      fields.emplace_back();
    } else {
      fields.back().push_back(c);
    }
  }
  return fields;
}

}  // namespace simcuda
