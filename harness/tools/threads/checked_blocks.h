// Which blocks live, of all threads together: a block that overlaps another one is said. Blocks
// flow in; the first overlap flows out. This file checks: its lock would spoil times.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include <fmt/format.h>

namespace allocmark {

class CheckedBlocks {
 public:
  void add(void* pointer, std::uint64_t size_bytes) {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(pointer);
    const std::lock_guard lock(mutex_);
    ++request_count_;
    const auto after = sizes_.lower_bound(begin);
    if (after != sizes_.end() && after->first < begin + size_bytes) {
      note(size_bytes, after->second);
    } else if (after != sizes_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second > begin) note(size_bytes, before->second);
    }
    sizes_[begin] = size_bytes;
  }
  // Before the allocator gets it back: from then on it may be another thread's.
  void remove(void* pointer) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(reinterpret_cast<std::uintptr_t>(pointer));
  }
  // Empty: no block overlapped another one.
  [[nodiscard]] const std::string& overlap() const { return overlap_; }

 private:
  void note(std::uint64_t size_bytes, std::uint64_t live_bytes) {
    if (!overlap_.empty()) return;
    overlap_ = fmt::format(
        "request {} of all threads ({} bytes) got memory of a block of {} bytes "
        "which is live",
        request_count_, size_bytes, live_bytes);
  }

  std::mutex mutex_;
  std::map<std::uintptr_t, std::uint64_t> sizes_;
  std::uint64_t request_count_ = 0;
  std::string overlap_;
};

}  // namespace allocmark
