#include "workloads/import/byte_window.h"

#include <algorithm>
#include <cstring>

namespace allocmark {

namespace {

constexpr std::size_t kWindowBytes = std::size_t{1} << 18;

}  // namespace

ByteWindow::ByteWindow(const std::string& path) : bytes_(path), buffer_(kWindowBytes) {}

bool ByteWindow::refill() {
  begin_ = 0;
  end_ = beyond_.empty() ? bytes_.read(buffer_) : 0;
  beyond_ = beyond_limits(bytes_, offset_ + end_, {.size_bytes_max = kTraceInput.size_bytes_max});
  if (!beyond_.empty()) end_ = 0;
  return end_ > 0;
}

bool ByteWindow::take(std::span<char> into) {
  while (!into.empty()) {
    if (begin_ == end_ && !refill()) return false;
    const std::size_t count = std::min(into.size(), end_ - begin_);
    std::memcpy(into.data(), buffer_.data() + begin_, count);
    begin_ += count;
    offset_ += count;
    into = into.subspan(count);
  }
  return true;
}

}  // namespace allocmark
