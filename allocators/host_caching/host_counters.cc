// See host_counters.h.
#include "allocators/host_caching/host_counters.h"

#include <span>
#include <string_view>

namespace allocmark::host_caching {
namespace {

void append(HostStatistics& out, std::string_view name, const HostStat& stat) {
  const std::string prefix = std::string(name) + '.';
  out.emplace_back(prefix + "allocated", stat.allocated);
  out.emplace_back(prefix + "current", stat.current);
  out.emplace_back(prefix + "freed", stat.freed);
  out.emplace_back(prefix + "peak", stat.peak);
}

HostStat sum_of(std::span<const HostStat> classes) {
  HostStat sum;
  for (const HostStat& stat : classes) sum.add(stat);
  return sum;
}

}  // namespace

HostStatistics host_statistics(const WholeCounters& whole, const ClassCounters& classes,
                               HostCounting counting) {
  const HostStat requests = sum_of(classes.active_requests);
  const HostStat bytes = sum_of(classes.active_bytes);
  HostStatistics out;
  if (counting == HostCounting::Segments) {
    append(out, "allocated_bytes", bytes);
    append(out, "allocations", requests);
  } else {
    append(out, "active_bytes", bytes);
    append(out, "active_requests", requests);
    append(out, "allocated_bytes", whole.block_bytes);
    append(out, "allocations", whole.blocks);
  }
  out.emplace_back("host_alloc_time.count", whole.pin_count);
  out.emplace_back("host_free_time.count", whole.unpin_count);
  out.emplace_back("num_host_alloc", whole.blocks.allocated);
  out.emplace_back("num_host_free", whole.blocks.freed);
  if (counting == HostCounting::Segments) {
    append(out, "reserved_bytes", whole.block_bytes);
    append(out, "segments", whole.blocks);
  }
  return out;
}

}  // namespace allocmark::host_caching
