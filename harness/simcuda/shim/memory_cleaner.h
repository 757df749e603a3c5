// Freed memory is cleared by the device before anyone gets it, piece after piece, while the program
// goes on. A request that needs more than what is clean makes the host wait. In: bytes in use after
// every operation. Out: whether the operation had to wait.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace simcuda {

class MemoryCleaner {
 public:
  // 0: freed memory is clean at once.
  explicit MemoryCleaner(std::uint64_t bytes_per_us) : bytes_per_us_(bytes_per_us) {}

  // `used_bytes` of `usable_bytes` are in use after an operation that ended at `now_ns`. Where it
  // took memory that was not clean yet it waits at least until the answer, when all is clean.
  [[nodiscard]] std::optional<std::uint64_t> follow(std::uint64_t used_bytes,
                                                    std::uint64_t usable_bytes,
                                                    std::uint64_t now_ns);

 private:
  struct Piece {
    std::uint64_t clean_at_ns = 0;
    std::uint64_t size_bytes = 0;
  };

  std::uint64_t bytes_per_us_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t dirty_bytes_ = 0;
  std::deque<Piece> pieces_;  // in the order in which they were freed
};

}  // namespace simcuda
