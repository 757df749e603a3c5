#include "harness/tools/why/simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "allocators/caching/config.h"
#include "base/bytes.h"
#include "harness/core/recorded/in_parallel.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/search/search_process.h"
#include "harness/core/search/search_progress.h"
#include "harness/job/handed_file.h"
#include "workloads/import/snapshot_pools.h"
#include "workloads/import/snapshot_source.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

// What an H200 leaves to a program, rounded down; larger cards are simulated with more memory.
constexpr std::uint64_t kH200Bytes = 130 * kGiB;

// A simulated GPU has 1 TiB at most, and its context takes a part.
constexpr std::uint64_t kSimulatedBytesMax = 1023 * kGiB;

// Begun in this order behind PyTorch's pool: the longest first, so that none runs alone at last.
constexpr const char* kOtherAllocators[] = {"vmm_stitch", "cub", "native", "thrust_pool"};

// The snapshot's trace for seven processes: each replays the steps where they lie in memory.
struct HandedTrace {
  HandedFile file;
  TraceHeader header;
  explicit HandedTrace(const Why& why, SnapshotPools pools = SnapshotPools::Kept)
      : header(PreparedTrace::write(snapshot_events(*why.history, why.check.pools, pools),
                                    file.fd())) {}
};

SearchSpec spec_of(const Why& why, const HandedTrace& trace) {
  SearchSpec spec{.workload = "file:" + why.snapshot->path,
                  .allocator = why.recorded.settings.rules->allocator(),
                  .finds_least = false,
                  .handed = trace.header};
  const bool limited = why.capacity_bytes < kNoLimit;
  spec.capacity = limited ? fmt::format("{}B", why.capacity_bytes) : "unlimited";
  return spec;
}

Simulated simulated_of(const SettingFacts& facts) {
  return {.failed_count = facts.oom_count,
          .peak_bytes = facts.peak_bytes,
          .driver_ns_per_step = facts.driver_ns_per_step};
}

SearchSpec caching_search(const Why& why, const HandedTrace& trace) {
  SearchSpec spec = spec_of(why, trace);
  for (const WhatIf& entry : why.settings) {
    // Recorded settings may be in conflict, or have keys of another release.
    if (!caching::parse_strict(entry.conf, *why.recorded.settings.rules).error)
      spec.confs.push_back(entry.conf);
  }
  return spec;
}

void simulate_caching(Why* why, const SearchSpec& spec, const SearchPlace& place,
                      const std::function<void()>& on_setting) {
  const SearchResult result = run_search(spec, place, on_setting);
  why->simulated_step_count = std::max<std::uint64_t>(result.step_count, 1);
  for (const SettingFacts& facts : result.settings) {
    const auto found = std::ranges::find(why->settings, facts.conf, &WhatIf::conf);
    if (found != why->settings.end()) found->simulated = simulated_of(facts);
  }
}

// One of the allocators that are not PyTorch's own.
struct OtherSearch {
  std::string name;
  SearchSpec spec;
  std::optional<SearchResult> result = std::nullopt;
  std::string failure = {};
};

std::vector<OtherSearch> other_searches(const Why& why, const HandedTrace& trace) {
  std::vector<OtherSearch> searches{{.name = kDriverPoolConf, .spec = spec_of(why, trace)}};
  searches.front().spec.confs = {kDriverPoolConf};
  for (const char* const name : kOtherAllocators) {
    searches.push_back({.name = name, .spec = spec_of(why, trace)});
    searches.back().spec.allocator = name;
    searches.back().spec.confs = {""};
  }
  return searches;
}

// As many at a time as there may be processes.
void simulate_others(Why* why, const HandedTrace& trace, const SearchPlace& place,
                     const std::function<void()>& on_setting) {
  std::vector<OtherSearch> searches = other_searches(*why, trace);
  for_each_in_parallel(searches.size(), place.process_count, [&](std::size_t at) {
    try {
      searches[at].result = run_search(searches[at].spec, place, on_setting);
    } catch (const std::exception& error) {
      searches[at].failure = error.what();
    }
  });
  for (const OtherSearch& search : searches) {
    if (search.result) {
      why->others.push_back(
          {.name = search.name, .simulated = simulated_of(search.result->settings.at(0))});
    } else {
      why->notes.push_back(fmt::format("{} was not tried: {}", search.name, search.failure));
    }
  }
  std::ranges::stable_sort(why->others, {}, [](const OtherAllocator& other) {
    return std::tuple(other.simulated.failed_count, other.simulated.driver_ns_per_step,
                      other.simulated.peak_bytes);
  });
}

}  // namespace

void simulate_settings(Why* why, const std::string& program_path, std::uint32_t process_count) {
  const std::uint64_t entry_count = why->history->size();
  if (entry_count > kSimulatedEntriesMax) {
    why->notes.push_back(fmt::format(
        "{} entries are too many to simulate here: settings are ranked by calls of the driver",
        entry_count));
    return;
  }
  if (why->capacity_bytes < kNoLimit && why->capacity_bytes > kSimulatedBytesMax) {
    why->notes.push_back(fmt::format(
        "{} were held at once, and a simulated GPU has at most {}: settings are ranked by calls of "
        "the driver. No card has so much memory, so the recording may be damaged",
        format_bytes(why->capacity_bytes), format_bytes(kSimulatedBytesMax)));
    return;
  }
  const bool is_larger = why->capacity_bytes < kNoLimit && why->capacity_bytes > kH200Bytes;
  auto trace = std::make_unique<const HandedTrace>(*why);
  SearchPlace place{.device = is_larger ? "sim:h200,memory=1TiB" : "sim:h200",
                    .program_path = program_path,
                    .process_count = process_count,
                    .handed_fd = trace->file.fd()};
  const SearchSpec spec = caching_search(*why, *trace);
  SearchProgress progress("searching", spec.confs.size() + 1 + std::size(kOtherAllocators));
  const auto on_setting = [&] { progress.add(1); };
  simulate_caching(why, spec, place, on_setting);
  // Other allocators have no private pools.
  if (has_private_pools(*why->history, why->check.pools)) {
    trace = std::make_unique<const HandedTrace>(*why, SnapshotPools::Dropped);
    place.handed_fd = trace->file.fd();
  }
  simulate_others(why, *trace, place, on_setting);
  rank_settings(why);
}

}  // namespace allocmark
