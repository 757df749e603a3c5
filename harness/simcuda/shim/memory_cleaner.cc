#include "harness/simcuda/shim/memory_cleaner.h"

#include <algorithm>

namespace simcuda {

std::optional<std::uint64_t> MemoryCleaner::follow(std::uint64_t used_bytes,
                                                   std::uint64_t usable_bytes,
                                                   std::uint64_t now_ns) {
  if (bytes_per_us_ == 0 || used_bytes == used_bytes_) return std::nullopt;
  while (!pieces_.empty() && pieces_.front().clean_at_ns <= now_ns) {
    dirty_bytes_ -= pieces_.front().size_bytes;
    pieces_.pop_front();
  }
  if (used_bytes < used_bytes_) {
    const std::uint64_t freed_bytes = used_bytes_ - used_bytes;
    const std::uint64_t begin_ns =
        pieces_.empty() ? now_ns : std::max(now_ns, pieces_.back().clean_at_ns);
    pieces_.push_back(
        {.clean_at_ns = begin_ns + freed_bytes * 1000 / bytes_per_us_, .size_bytes = freed_bytes});
    dirty_bytes_ += freed_bytes;
    used_bytes_ = used_bytes;
    return std::nullopt;
  }
  used_bytes_ = used_bytes;
  const std::uint64_t free_bytes = usable_bytes > used_bytes ? usable_bytes - used_bytes : 0;
  if (free_bytes >= dirty_bytes_) return std::nullopt;
  const std::uint64_t clean_at_ns = pieces_.back().clean_at_ns;
  pieces_.clear();
  dirty_bytes_ = 0;
  return clean_at_ns;
}

}  // namespace simcuda
