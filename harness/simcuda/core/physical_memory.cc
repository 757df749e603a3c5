#include "harness/simcuda/core/physical_memory.h"

#include <algorithm>

#include "base/assert.h"

namespace simcuda {
PhysicalMemory::PhysicalMemory(const DeviceConfig& config)
    : total_bytes_(config.total_bytes),
      free_bytes_initial_(config.free_bytes_initial),
      page_limit_(config.page_limit),
      chunk_limit_(config.chunk_limit),
      host_(config.host),
      cached_bytes_(config.host.cached_bytes) {
  shrink_cache();
}

std::uint64_t PhysicalMemory::pages_taken() const { return used_pages_ + pages_of(host_bytes_); }

bool PhysicalMemory::has_pages(std::uint64_t page_count) {
  if (!host_is_lost_ && page_count <= page_limit_ - pages_taken()) return true;
  host_is_lost_ = host_.is_one_pool;
  return false;
}

// It holds at most what nobody else does, and does not grow again.
void PhysicalMemory::shrink_cache() { cached_bytes_ = std::min(cached_bytes_, available_bytes()); }

bool PhysicalMemory::take_pages(std::uint64_t page_count) {
  if (!has_pages(page_count)) {
    const std::uint64_t wanted_bytes = (used_pages_ + page_count) * kPageBytes;
    extremes_.refused_bytes_min = std::min(extremes_.refused_bytes_min, wanted_bytes);
    return false;
  }
  used_pages_ += page_count;
  shrink_cache();
  extremes_.used_bytes_max = std::max(extremes_.used_bytes_max, used_bytes());
  return true;
}

void PhysicalMemory::return_pages(std::uint64_t page_count) {
  ALLOCMARK_ASSERT(page_count <= used_pages_);
  used_pages_ -= page_count;
}

bool PhysicalMemory::take_chunk() {
  if (chunk_count_ >= chunk_limit_ || !take_pages(kPagesPerChunk)) return false;
  ++chunk_count_;
  return true;
}

void PhysicalMemory::return_chunk() {
  ALLOCMARK_ASSERT(chunk_count_ > 0);
  --chunk_count_;
  return_pages(kPagesPerChunk);
}

bool PhysicalMemory::take_host(std::uint64_t size_bytes) {
  if (!host_.is_one_pool) return true;
  const std::uint64_t page_count = pages_of(host_bytes_ + size_bytes) - pages_of(host_bytes_);
  if (!has_pages(page_count)) return false;
  host_bytes_ += size_bytes;
  shrink_cache();
  return true;
}

void PhysicalMemory::return_host(std::uint64_t size_bytes) {
  if (!host_.is_one_pool) return;
  ALLOCMARK_ASSERT(size_bytes <= host_bytes_);
  host_bytes_ -= size_bytes;
}

void PhysicalMemory::restart_host() {
  host_is_lost_ = false;
  cached_bytes_ = host_.cached_bytes;
  shrink_cache();
}

PhysicalMemory::Extremes PhysicalMemory::take_extremes() {
  const Extremes extremes = extremes_;
  extremes_ = {.used_bytes_max = used_bytes()};
  return extremes;
}

std::uint64_t PhysicalMemory::available_bytes() const {
  return free_bytes_initial_ - pages_taken() * kPageBytes;
}

std::uint64_t PhysicalMemory::free_bytes() const { return available_bytes() - cached_bytes_; }

}  // namespace simcuda
