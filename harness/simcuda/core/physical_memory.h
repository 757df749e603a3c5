// The device's memory as a number of free pages: every free 2 MiB page serves every request, so
// places do not matter. The heap, the pools' chunks and the VMM handles share it, and the host
// where it has no other memory. In: pages taken and returned. Out: yes or no, free bytes.
#pragma once

#include <cstdint>

#include "harness/simcuda/core/device_config.h"

namespace simcuda {

class PhysicalMemory {
 public:
  explicit PhysicalMemory(const DeviceConfig& config);

  // All of them or none.
  [[nodiscard]] bool take_pages(std::uint64_t page_count);
  // The same, and once more after `on_shortage` where there are too few.
  template <class OnShortage>
  [[nodiscard]] bool take_pages(std::uint64_t page_count, OnShortage on_shortage) {
    if (take_pages(page_count)) return true;
    on_shortage();
    return take_pages(page_count);
  }
  void return_pages(std::uint64_t page_count);
  // One 32 MiB chunk for a pool: has to leave a page over and stay within the chunk limit.
  [[nodiscard]] bool take_chunk();
  void return_chunk();

  // Memory of the host, where the two are one pool; elsewhere nothing is taken. Whole pages of the
  // sum count. All of it or none.
  [[nodiscard]] bool take_host(std::uint64_t size_bytes);
  void return_host(std::uint64_t size_bytes);
  // A request found too little for the host, which hangs: nothing is served any more.
  [[nodiscard]] bool host_is_lost() const { return host_is_lost_; }
  // The host is switched off and on: it answers again, with the page cache that it had at first.
  void restart_host();
  // What the host's kernel could make free, as MemAvailable says it: free memory and page cache.
  [[nodiscard]] std::uint64_t available_bytes() const;

  // As cudaMemGetInfo reports it: without the page cache, which gives way to a request.
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
  // Whether so many pages are there; a host whose memory they are hangs where they are not.
  [[nodiscard]] bool has_pages(std::uint64_t page_count);
  [[nodiscard]] std::uint64_t pages_taken() const;
  void shrink_cache();

  std::uint64_t total_bytes_;
  std::uint64_t free_bytes_initial_;
  std::uint64_t page_limit_;
  std::uint64_t chunk_limit_;
  SharedHost host_;
  std::uint64_t cached_bytes_;    // page cache as it is now
  std::uint64_t host_bytes_ = 0;  // that the program holds of the host
  bool host_is_lost_ = false;
  std::uint64_t used_pages_ = 0;  // chunks included
  std::uint64_t chunk_count_ = 0;
  Extremes extremes_;
};

}  // namespace simcuda
