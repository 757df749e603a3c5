// The self-check of a snapshot: the heap at the history's start is rebuilt, `caching` takes it
// over, and every request of the history is asked again under the recorded settings. Where each
// block lands is compared with where PyTorch put it. The share of equal placements says how far
// anything that is concluded from this snapshot can be trusted. Checks; times nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocators/caching/segment_info.h"
#include "harness/core/recorded/pool_story.h"
#include "harness/core/recorded/recorded_settings.h"
#include "workloads/import/snapshot_history.h"
#include "workloads/import/snapshot_pools.h"

namespace allocmark {

// A request that failed, and what the allocator held when it did: after everything that could be
// given back had been.
struct OomPicture {
  std::uint64_t entry_index = 0;
  std::uint64_t size_bytes = 0;  // rounded
  std::uint32_t stream = 0;      // index into MemorySnapshot::streams
  std::uint32_t pool = 0;
  std::uint64_t device_free_bytes = 0;
  std::uint32_t stack = kNoStack;
  bool retry_serves = false;  // the same request right after it finds a block
  std::map<std::uint32_t, std::vector<caching::SegmentInfo>> pools{};
  std::unordered_map<std::uint64_t, std::uint32_t> stacks{};  // of live blocks, by address
};

struct SelfCheck {
  std::uint64_t placement_count = 0;  // requests that PyTorch served
  std::uint64_t equal_count = 0;
  std::uint64_t restored_count = 0;  // of these, blocks that a checkpoint of a pool put back
  std::uint64_t reserved_bytes_peak = 0;
  std::uint64_t live_bytes_peak = 0;  // requested
  bool final_heap_equal = false;
  PoolsOfGrowth pools{};                 // as the replay knew them
  bool frees_waited = false;             // whether blocks waited that may have become free at once
  std::uint64_t guessed_pool_count = 0;  // segments whose private pool follows from placements only
  bool names_private_pool = false;       // the snapshot has a segment of a private pool
  bool few_pools_guessed = false;        // many more could have been
  std::string first_difference{};        // empty where there is none
  std::vector<std::string> doubts{};
  std::uint64_t oom_count = 0;
  // Least memory for which some failed request would have been served: reserved + segment.
  std::uint64_t refused_bytes_min = ~std::uint64_t{0};
  std::optional<OomPicture> last_oom{};
  PoolStory story{};

  [[nodiscard]] bool complete() const {
    return equal_count == placement_count && final_heap_equal && first_difference.empty() &&
           doubts.empty();
  }
};

// Of a snapshot whose entries name no pools, what the self-check finds out about them; nothing
// where it does not explain every placement, or the history is long and ends without a private
// pool.
[[nodiscard]] std::optional<PoolsOfGrowth> find_pools(const DeviceHistory& history);

struct Recognised {
  RecordedSettings settings;
  SelfCheck check;
};

// A snapshot does not name its release: where `release` does not either, it is the one whose rules
// give the recorded placements, else the one that gives most of them. Rules by address come first,
// because a snapshot shows all addresses, but not in which order its segments were taken.
[[nodiscard]] Recognised recognise(const DeviceHistory& history, const SnapshotSettings& recorded,
                                   const caching::Rules* release = nullptr);

// "self-check: 100 % of 15,232 placements equal: the rest of this answer can be trusted", or a
// warning with the first difference.
[[nodiscard]] std::string to_text(const SelfCheck& check);

}  // namespace allocmark
