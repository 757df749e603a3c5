#include "harness/simcuda/core/physical_memory.h"

#include <algorithm>

#include "base/assert.h"

namespace simcuda {

PhysicalMemory::PhysicalMemory(const DeviceConfig& config)
    : total_bytes_(config.total_bytes),
      free_bytes_initial_(config.free_bytes_initial),
      page_limit_(config.page_limit),
      chunk_limit_(config.chunk_limit) {}

bool PhysicalMemory::take_pages(std::uint64_t page_count) {
  if (page_count > page_limit_ - used_pages_) {
    const std::uint64_t wanted_bytes = (used_pages_ + page_count) * kPageBytes;
    extremes_.refused_bytes_min = std::min(extremes_.refused_bytes_min, wanted_bytes);
    return false;
  }
  used_pages_ += page_count;
  extremes_.used_bytes_max = std::max(extremes_.used_bytes_max, used_bytes());
  return true;
}

void PhysicalMemory::return_pages(std::uint64_t page_count) {
  ALLOCMARK_ASSERT(page_count <= used_pages_);
  used_pages_ -= page_count;
}

bool PhysicalMemory::take_chunk() {
  if (chunk_count_ >= chunk_limit_ || !take_pages(kPagesPerChunk)) {
    return false;
  }
  ++chunk_count_;
  return true;
}

void PhysicalMemory::return_chunk() {
  ALLOCMARK_ASSERT(chunk_count_ > 0);
  --chunk_count_;
  return_pages(kPagesPerChunk);
}

PhysicalMemory::Extremes PhysicalMemory::take_extremes() {
  const Extremes extremes = extremes_;
  extremes_ = {.used_bytes_max = used_bytes()};
  return extremes;
}

std::uint64_t PhysicalMemory::free_bytes() const {
  return free_bytes_initial_ - used_pages_ * kPageBytes;
}

}  // namespace simcuda
