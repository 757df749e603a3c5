// The bytes of a file one after the other with their offset, for readers of binary formats.
// Constant memory; what is packed is unpacked on the way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "workloads/trace/byte_stream.h"

namespace allocmark {

class ByteWindow {
 public:
  explicit ByteWindow(const std::string& path);

  // The next byte; -1 at the end.
  [[nodiscard]] int next() {
    if (begin_ == end_ && !refill()) return -1;
    ++offset_;
    return static_cast<unsigned char>(buffer_[begin_++]);
  }
  // Fills `into`; false where the file ends before.
  [[nodiscard]] bool take(std::span<char> into);
  // Of the next byte, in the unpacked file.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  // Why the data ended before their end; empty where they did not.
  [[nodiscard]] const std::string& damage() const {
    return beyond_.empty() ? bytes_.damage() : beyond_;
  }

 private:
  bool refill();

  ByteReader bytes_;
  std::string beyond_;  // what the file unpacks to is too much for its size
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace allocmark
