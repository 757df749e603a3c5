#include "allocators/caching/counters.h"

#include <string_view>

namespace allocmark::caching {
namespace {

struct NamedArray {
  std::string_view name;
  StatArray Counters::*array;
};

constexpr NamedArray kArrays[] = {
    {"active", &Counters::active},
    {"active_bytes", &Counters::active_bytes},
    {"allocated_bytes", &Counters::allocated_bytes},
    {"allocation", &Counters::allocation},
    {"inactive_split", &Counters::inactive_split},
    {"inactive_split_bytes", &Counters::inactive_split_bytes},
    {"requested_bytes", &Counters::requested_bytes},
    {"reserved_bytes", &Counters::reserved_bytes},
    {"segment", &Counters::segment},
};

struct NamedStat {
  std::string_view name;
  Stat Counters::*stat;
};

constexpr NamedStat kStats[] = {
    {"oversize_allocations", &Counters::oversize_allocations},
    {"oversize_segments", &Counters::oversize_segments},
};

using Flat = std::vector<std::pair<std::string, std::int64_t>>;

void append(Flat& flat, const std::string& prefix, const Stat& stat) {
  flat.emplace_back(prefix + ".allocated", stat.allocated());
  flat.emplace_back(prefix + ".current", stat.current());
  flat.emplace_back(prefix + ".freed", stat.freed());
  flat.emplace_back(prefix + ".peak", stat.peak());
}

void append(Flat& flat, const std::string& name, const StatArray& array) {
  append(flat, name + ".all", array.all());
  append(flat, name + ".large_pool", array.of(PoolKind::Large));
  append(flat, name + ".small_pool", array.of(PoolKind::Small));
}

}  // namespace

Flat flatten(const Counters& counters) {
  Flat flat;
  for (const NamedArray& entry : kArrays)
    append(flat, std::string(entry.name), counters.*entry.array);
  for (const auto& [id, array] : counters.reserved_bytes_by_private_pool)
    append(flat, "reserved_bytes_by_private_pools.0_" + std::to_string(id), array);
  for (const NamedStat& entry : kStats) append(flat, std::string(entry.name), counters.*entry.stat);
  flat.emplace_back("max_split_size", counters.max_split_size);
  flat.emplace_back("num_alloc_retries", counters.num_alloc_retries);
  flat.emplace_back("num_device_alloc", counters.num_device_alloc);
  flat.emplace_back("num_device_free", counters.num_device_free);
  flat.emplace_back("num_ooms", counters.num_ooms);
  flat.emplace_back("num_sync_all_streams", counters.num_sync_all_streams);
  if (counters.num_oom_rejections)
    flat.emplace_back("num_oom_rejections", *counters.num_oom_rejections);
  std::ranges::sort(flat);
  return flat;
}

}  // namespace allocmark::caching
