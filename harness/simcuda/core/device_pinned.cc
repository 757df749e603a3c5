// A device's part in pinned memory of the host; see device.h.
#include "base/assert.h"
#include "harness/simcuda/core/device.h"

namespace simcuda {

PoolOutcome Device::create_host_pool(Range range) {
  const PoolId pool = next_pool_++;
  PhysicalMemory& memory = config_.host.is_one_pool ? memory_ : host_memory_;
  add_slot(
      {.id = pool, .memory = &memory},
      {.range = range, .chunk_count_max = range.size_bytes() / kChunkBytes / 2, .is_host = true});
  return {.pool = pool};
}

bool Device::take_pinned(std::uint64_t size_bytes) {
  const std::uint64_t sum_bytes = pinned_bytes_ + size_bytes;
  if (sum_bytes < size_bytes) return false;
  const bool is_taken =
      config_.host.is_one_pool
          ? memory_.take_host(size_bytes)
          : host_memory_.take_pages(pages_of(sum_bytes) - pages_of(pinned_bytes_));
  if (is_taken) pinned_bytes_ = sum_bytes;
  return is_taken;
}

void Device::return_pinned(std::uint64_t size_bytes) {
  ALLOCMARK_ASSERT(size_bytes <= pinned_bytes_);
  const std::uint64_t rest_bytes = pinned_bytes_ - size_bytes;
  if (config_.host.is_one_pool) {
    memory_.return_host(size_bytes);
  } else {
    host_memory_.return_pages(pages_of(pinned_bytes_) - pages_of(rest_bytes));
  }
  pinned_bytes_ = rest_bytes;
}

std::uint64_t Device::pinned_bytes() const {
  return pinned_bytes_ + host_memory_.chunk_count() * kChunkBytes;
}

}  // namespace simcuda
