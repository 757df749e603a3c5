// The lines of a text file with their numbers, in constant memory, for readers of other tools'
// logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/import/byte_window.h"

namespace allocmark {

class TextLines {
 public:
  explicit TextLines(const std::string& path) : path_(path), bytes_(path) {}

  // The next line without its end, valid until the next call; nothing at the file's end. A last
  // line without newline counts. Throws UsageError for a line of more than 64 KiB, more than 16 Mi
  // lines and damaged data.
  [[nodiscard]] std::optional<std::string_view> next();
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // "PATH:LINE" of the line that next() gave last.
  [[nodiscard]] std::string where() const;

 private:
  std::string path_;
  ByteWindow bytes_;
  std::string line_;
  std::uint64_t number_ = 0;
};

// The columns of a line, cut at commas; quotes around a column are taken off. Valid as long as the
// line.
void split_columns(std::string_view line, std::vector<std::string_view>* columns);

// "123", "0x7f00", "(nil)": the number; nothing where it is none.
[[nodiscard]] std::optional<std::uint64_t> number_in(std::string_view text);

}  // namespace allocmark
