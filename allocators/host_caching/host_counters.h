// The counters of torch.cuda.host_memory_stats(), but for times. Changes of blocks flow in; names
// and values flow out.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "allocators/host_caching/host_rules.h"

namespace allocmark::host_caching {

// One of PyTorch's statistics. Bytes or a count; negative values come from its errors.
struct HostStat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;  // all that was ever added
  std::int64_t freed = 0;

  void increase(std::int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void decrease(std::int64_t amount) {
    current -= amount;
    freed += amount;
  }
  void reset_peak() { peak = current; }
  void reset_accumulated() { allocated = freed = 0; }
  // Peaks are added as well, though they need not have been at one time: so does PyTorch.
  void add(const HostStat& other) {
    current += other.current;
    peak += other.peak;
    allocated += other.allocated;
    freed += other.freed;
  }
};

// A size class for each power of two up to 2^63 bytes.
inline constexpr std::size_t kSizeClassCount = 64;

// Counters of blocks in use, per size class.
struct ClassCounters {
  std::array<HostStat, kSizeClassCount> active_requests{};
  std::array<HostStat, kSizeClassCount> active_bytes{};

  void add(const ClassCounters& other) {
    for (std::size_t i = 0; i < kSizeClassCount; ++i) {
      active_requests[i].add(other.active_requests[i]);
      active_bytes[i].add(other.active_bytes[i]);
    }
  }
  // Calls action(HostStat&) for each.
  template <typename Action>
  void each(Action action) {
    std::ranges::for_each(active_requests, action);
    std::ranges::for_each(active_bytes, action);
  }
};

// Counters of all pools together.
struct WholeCounters {
  HostStat blocks;               // pinned blocks, in use or free
  HostStat block_bytes;          // their bytes
  std::int64_t pin_count = 0;    // calls that pinned memory (host_alloc_time.count)
  std::int64_t unpin_count = 0;  // calls that gave it back (host_free_time.count)
};

// As torch.cuda.host_memory_stats() of that release names and sorts them: "active_bytes.peak".
using HostStatistics = std::vector<std::pair<std::string, std::int64_t>>;
[[nodiscard]] HostStatistics host_statistics(const WholeCounters& whole,
                                             const ClassCounters& classes, HostCounting counting);

}  // namespace allocmark::host_caching
