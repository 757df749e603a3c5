// What another setting would have done: the history's requests on a fresh heap and a card of a
// given size. Blocks that were live before the history come first. Checks; times nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocators/caching/settings.h"
#include "workloads/import/snapshot_history.h"

namespace allocmark {

struct WhatIf {
  std::string conf;  // empty: unset
  std::uint64_t failed_count = 0;
  std::uint64_t reserved_bytes_peak = 0;
  std::uint64_t call_count = 0;  // of the driver: cudaMalloc, cudaFree, pages created and released
  std::uint64_t first_failed_entry = 0;
  std::uint64_t first_failed_bytes = 0;
};

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0} >> 1;

[[nodiscard]] WhatIf replay_on_card(const DeviceHistory& history, const caching::Settings& settings,
                                    std::uint64_t capacity_bytes);

// Config strings that a user of PyTorch can set and that are worth trying, `unset` (empty) first.
[[nodiscard]] std::vector<std::string> candidate_confs();

}  // namespace allocmark
