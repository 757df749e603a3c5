// The device's memory as a number of free pages: every free 2 MiB page serves every request, so
// places do not matter. The heap, the pools' chunks and the VMM handles share it. In: pages taken
// and returned. Out: yes or no, free bytes.
#pragma once

#include <cstdint>

#include "harness/simcuda/core/device_config.h"

namespace simcuda {

class PhysicalMemory {
 public:
  explicit PhysicalMemory(const DeviceConfig& config);

  // All of them or none.
  [[nodiscard]] bool take_pages(std::uint64_t page_count);
  void return_pages(std::uint64_t page_count);
  // One 32 MiB chunk for a pool: has to leave a page over and stay within the chunk limit.
  [[nodiscard]] bool take_chunk();
  void return_chunk();

  // As cudaMemGetInfo reports it.
  [[nodiscard]] std::uint64_t free_bytes() const;
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] std::uint64_t used_bytes() const { return used_pages_ * kPageBytes; }
  [[nodiscard]] std::uint64_t chunk_count() const { return chunk_count_; }

  // Most bytes used since the last call, and the least that a refused request would have brought
  // them to (2^64 - 1: none was refused). Between the two, another amount of memory would have
  // changed nothing.
  struct Extremes {
    std::uint64_t used_bytes_max = 0, refused_bytes_min = ~std::uint64_t{0};
  };
  [[nodiscard]] Extremes take_extremes();

 private:
  std::uint64_t total_bytes_;
  std::uint64_t free_bytes_initial_;
  std::uint64_t page_limit_;
  std::uint64_t chunk_limit_;
  std::uint64_t used_pages_ = 0;  // chunks included
  std::uint64_t chunk_count_ = 0;
  Extremes extremes_;
};

}  // namespace simcuda
