// How much pinned memory an allocator may hold. Pinned memory is never paged out, so a program that
// pins what its machine needs ends the machine, not itself. Sizes flow in, yes or no flows out.
#pragma once

#include <cstdint>

#include "base/process_memory.h"

namespace allocmark {

class PinBudget {
 public:
  // 0: what this machine may pin now.
  explicit PinBudget(std::uint64_t limit_bytes)
      : limit_bytes_(limit_bytes != 0 ? limit_bytes : pinnable_memory_bytes()) {}

  // Nothing is taken where false.
  [[nodiscard]] bool take(std::uint64_t size_bytes) {
    if (size_bytes > limit_bytes_ - held_bytes_) return false;
    held_bytes_ += size_bytes;
    return true;
  }
  void give_back(std::uint64_t size_bytes) { held_bytes_ -= size_bytes; }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }

 private:
  std::uint64_t limit_bytes_;
  std::uint64_t held_bytes_ = 0;
};

}  // namespace allocmark
