#include "harness/why/simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "allocators/caching/config.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/advise/search_process.h"

namespace allocmark {
namespace {

// What an H200 leaves to a program, rounded down; larger cards are simulated with more memory.
constexpr std::uint64_t kH200Bytes = 130 * kGiB;

constexpr const char* kOtherAllocators[] = {"native", "cub", "thrust_pool", "vmm_stitch"};

SearchSpec spec_of(const Why& why) {
  SearchSpec spec{.workload = "file:" + why.snapshot.path, .finds_least = false};
  const bool limited = why.capacity_bytes < kNoLimit;
  spec.capacity = limited ? fmt::format("{}B", why.capacity_bytes) : "unlimited";
  return spec;
}

Simulated simulated_of(const SettingFacts& facts) {
  return {.failed_count = facts.oom_count,
          .peak_bytes = facts.peak_bytes,
          .driver_ns_per_step = facts.driver_ns_per_step};
}

void simulate_caching(Why* why, const SearchPlace& place) {
  SearchSpec spec = spec_of(*why);
  for (const WhatIf& entry : why->settings) {
    // Recorded settings may have keys of another release.
    if (!caching::parse_strict(entry.conf).error) spec.confs.push_back(entry.conf);
  }
  const SearchResult result = run_search(spec, place);
  why->simulated_step_count = std::max<std::uint64_t>(result.step_count, 1);
  for (const SettingFacts& facts : result.settings) {
    const auto found = std::ranges::find(why->settings, facts.conf, &WhatIf::conf);
    if (found != why->settings.end()) found->simulated = simulated_of(facts);
  }
}

void simulate_others(Why* why, const SearchPlace& place) {
  const auto add = [&](const std::string& name, const SearchSpec& spec) {
    try {
      const SearchResult result = run_search(spec, place);
      why->others.push_back({.name = name, .simulated = simulated_of(result.settings.at(0))});
    } catch (const Error& error) {
      why->notes.push_back(fmt::format("{} was not tried: {}", name, error.what()));
    }
  };
  SearchSpec spec = spec_of(*why);
  spec.confs = {kDriverPoolConf};
  add(kDriverPoolConf, spec);
  for (const char* const name : kOtherAllocators) {
    spec.allocator = name;
    spec.confs = {""};
    add(name, spec);
  }
  std::ranges::stable_sort(why->others, {}, [](const OtherAllocator& other) {
    return std::tuple(other.simulated.failed_count, other.simulated.driver_ns_per_step);
  });
}

}  // namespace

void simulate_settings(Why* why, const std::string& program_path, std::uint32_t process_count) {
  const std::uint64_t entry_count = why->snapshot.entry_count(why->snapshot.busiest_device());
  if (entry_count > kSimulatedEntriesMax) {
    why->notes.push_back(fmt::format(
        "{} entries are too many to simulate here: settings are ranked by calls of the driver",
        entry_count));
    return;
  }
  const bool is_larger = why->capacity_bytes < kNoLimit && why->capacity_bytes > kH200Bytes;
  const SearchPlace place{.device = is_larger ? "sim:h200,memory=1TiB" : "sim:h200",
                          .program_path = program_path,
                          .process_count = process_count};
  simulate_caching(why, place);
  simulate_others(why, place);
  rank_settings(why);
}

}  // namespace allocmark
