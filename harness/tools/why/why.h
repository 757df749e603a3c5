// Why a job ran out of memory, from the snapshot that it left: what the allocator held when the
// request failed, and which settings would have served it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/recorded/recorded_settings.h"
#include "harness/core/recorded/self_check.h"
#include "harness/core/recorded/what_if.h"
#include "harness/tools/why/owners.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/snapshot_history.h"

namespace allocmark {

struct WhyOptions {
  std::optional<std::uint64_t> memory_bytes{};  // of the card, for the allocator; else as recorded
  std::vector<std::string> confs{};             // to be tried; empty: candidate_confs()
  const caching::Rules* release = nullptr;      // of PyTorch; null: found out from the placements
};

// What a private pool of a graph or a MemPool held when the request failed.
struct PoolShare {
  std::uint32_t pool = 0;  // index into MemorySnapshot::pools; one beyond it has no name there
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;  // rounded
  std::uint64_t free_bytes = 0;
};

// Where the reserved memory was when the request failed.
struct OomShares {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t live_bytes = 0;            // rounded
  std::uint64_t live_requested_bytes = 0;  // as the program asked
  std::uint64_t waiting_bytes = 0;         // given back, but another stream used it
  std::uint64_t usable_bytes = 0;          // free, on the request's stream and in its pool
  std::uint64_t usable_largest_bytes = 0;
  std::uint64_t usable_count = 0;
  std::uint64_t other_stream_bytes = 0;
  std::uint64_t other_class_bytes = 0;  // small segments for large requests, or the reverse
  std::uint64_t common_pool_bytes = 0;  // free there, for a request of a private pool
  std::uint64_t other_pool_bytes = 0;   // free in private pools that are not the request's
  std::vector<PoolShare> pools{};       // the most free bytes first
};

// Neighbouring blocks of a segment that are all live, all waiting or all free.
struct BlockRun {
  std::uint64_t size_bytes = 0;
  caching::BlockState state = caching::BlockState::Inactive;
};

// A segment that is kept although some of it is free.
struct HeldSegment {
  std::uint64_t size_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t block_count = 0;  // live ones
  std::uint64_t block_bytes = 0;  // of the largest live one
  std::string holder{};           // its stack, innermost first; empty where the file has none
  bool usable = false;            // by the request that failed: its stream, pool and size
  std::vector<BlockRun> runs{};
};

// How a user of PyTorch chooses the driver's pools, which PyTorch's own allocator does not manage.
inline constexpr const char* kDriverPoolConf = "backend:cudaMallocAsync";

// What does not manage memory as PyTorch's own allocator does, on the simulated H200.
struct OtherAllocator {
  std::string name{};  // kDriverPoolConf, or an allocator that no setting of PyTorch chooses
  Simulated simulated{};
};

inline constexpr std::size_t kHeldCountMax = 40;
inline constexpr std::size_t kHeldCountTold = 5;  // in the text

struct Why {
  std::unique_ptr<const MemorySnapshot> snapshot;
  std::unique_ptr<const DeviceHistory> history;  // of its main device
  std::vector<std::string> notes;
  RecordedSettings recorded;
  bool release_given = false;
  SelfCheck check;
  std::uint64_t capacity_bytes = kNoLimit;
  std::uint64_t capacity_bytes_max = kNoLimit;  // more than capacity_bytes where a limit is guessed
  std::string capacity_source;
  std::string limit{};  // what refused the request though the device had the memory; else empty
  Owners owners;
  std::optional<OomShares> shares{};
  std::vector<HeldSegment> held{};         // by free bytes, largest first; at most kHeldCountMax
  std::vector<WhatIf> settings{};          // the best first; `recorded` is among them
  std::vector<OtherAllocator> others{};    // by failures, then time
  std::uint64_t simulated_step_count = 0;  // 0 where nothing was simulated
  std::uint64_t live_bytes_peak = 0;       // requested, as the program went on
  std::uint64_t pool_alloc_count = 0;      // requests to private pools
};

// Failures, then memory to spare, then what 'advise' ranks by: modelled time in CUDA calls, or the
// number of calls where nothing was simulated.
void rank_settings(Why* why);

[[nodiscard]] Why explain_snapshot(const std::string& path, const WhyOptions& options);

// First the answer in one sentence, last the line to paste.
[[nodiscard]] std::string to_text(const Why& why);
// For an issue: the answer, who held the memory, the settings.
[[nodiscard]] std::string to_markdown(const Why& why);
[[nodiscard]] std::string to_json(const Why& why);
// The same and what only the page shows.
[[nodiscard]] std::string to_page_json(const Why& why);

}  // namespace allocmark
