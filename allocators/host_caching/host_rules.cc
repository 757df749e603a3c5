// See host_rules.h. Each row was read from ATen/core/CachingHostAllocator.h in the wheels of that
// release; patch releases do not differ.
#include "allocators/host_caching/host_rules.h"

#include <array>

namespace allocmark::host_caching {
namespace {

constexpr std::array kRules = {
    HostRules{.since_minor = 9,
              .counting = HostCounting::Segments,
              .miscounts_waited_bytes = true,
              .searches_waiting = true},
    HostRules{
        .since_minor = 10, .counting = HostCounting::ActiveLeaks, .miscounts_waited_bytes = true},
    HostRules{.since_minor = 11,
              .counting = HostCounting::ActiveLeaks,
              .miscounts_waited_bytes = true,
              .has_pools = true},
    HostRules{.since_minor = 13, .has_pools = true},
    HostRules{.since_minor = 14, .has_pools = true, .looks_at_size = true},
    HostRules{.since_minor = 15, .has_pools = true, .counts_per_pool = true, .looks_at_size = true},
};

}  // namespace

std::span<const HostRules> all_host_rules() { return kRules; }

const HostRules& host_rules(const caching::Rules& release) {
  const HostRules* found = &kRules.front();
  for (const HostRules& row : kRules) {
    if (row.since_minor <= release.minor) found = &row;
  }
  return *found;
}

}  // namespace allocmark::host_caching
