// What another setting would have done: the history's requests on a fresh heap and a card of a
// given size. Blocks that were live before the history come first. Checks; times nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocators/caching/settings.h"
#include "harness/core/recorded/self_check.h"
#include "workloads/import/snapshot_history.h"

namespace allocmark {

// What the simulated H200 says of a setting, as 'run' and 'advise' do.
struct Simulated {
  std::uint64_t failed_count = 0;
  std::uint64_t peak_bytes = 0;
  double driver_ns_per_step = 0;
};

struct WhatIf {
  std::string conf;  // empty: unset
  std::uint64_t failed_count = 0;
  std::uint64_t reserved_bytes_peak = 0;
  std::uint64_t call_count = 0;  // of the driver: cudaMalloc, cudaFree, pages created and released
  std::uint64_t first_failed_entry = 0;
  std::uint64_t first_failed_bytes = 0;
  std::optional<Simulated> simulated{};

  // The worst of all that was tried.
  [[nodiscard]] std::uint64_t failed_count_max() const {
    return simulated ? std::max(failed_count, simulated->failed_count) : failed_count;
  }
};

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0} >> 1;

// `known` is what the self-check found out. An answer for each of the settings, in their order.
// Replays go on as many threads as there are processors, or on fewer: each takes memory for what is
// live, and all together 384 MiB where one needs less.
[[nodiscard]] std::vector<WhatIf> replay_on_card(const DeviceHistory& history,
                                                 const SelfCheck& known,
                                                 std::span<const caching::Settings> settings,
                                                 std::uint64_t capacity_bytes);

// Config strings that a user of this release can set and that are worth trying, `unset` (empty)
// first.
[[nodiscard]] std::vector<std::string> candidate_confs(const caching::Rules& release);

}  // namespace allocmark
