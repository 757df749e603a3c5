// What differs between PyTorch's releases in the cache of pinned memory. A release without a row
// follows the newest row that is older than it.
#pragma once

#include <cstdint>
#include <span>

#include "allocators/caching/release.h"

namespace allocmark::host_caching {

// Which counters there are, and what a free does to those of used blocks.
enum class HostCounting : std::uint8_t {
  Segments,     // allocations, segments, allocated_bytes, reserved_bytes
  ActiveLeaks,  // active_requests, active_bytes, allocations, allocated_bytes; a free without an
                // event changes no active counter
  Active,       // the same names, and every free counts
};

struct HostRules {
  int since_minor = 0;  // of PyTorch 2.`since_minor`
  HostCounting counting = HostCounting::Active;
  // A block that waited for events takes the searched size from the byte counter, which is -1
  // unless a size was searched: the counter grows by 1.
  bool miscounts_waited_bytes = false;
  // With background threads, a request looks for its size among blocks that still wait for events.
  bool searches_waiting = false;
  // What is pinned during a graph's capture comes from the pool of that capture.
  bool has_pools = false;
  // Every pool has counters of its own, so that peaks add up over pools.
  bool counts_per_pool = false;
  // A free block serves a request that it is large enough for. Before, the last one of its size
  // class does, whatever its size; sizes in a class differ where some are not rounded (PR 192722).
  bool looks_at_size = false;
};

// By age, the oldest first.
[[nodiscard]] std::span<const HostRules> all_host_rules();

// Of the release that `release` names.
[[nodiscard]] const HostRules& host_rules(const caching::Rules& release);

}  // namespace allocmark::host_caching
