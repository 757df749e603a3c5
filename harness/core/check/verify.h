// The check: the trace is replayed, untimed, under the shadow heap, and once more to look into
// blocks (verify_level.h says why apart). A fresh backend flows in; peaks, OOM causes, the
// placement hash and the first broken rule flow out. This file checks; nothing in it is timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocators/backend/backend.h"
#include "base/random.h"
#include "harness/core/check/backend_calls.h"
#include "harness/core/check/block_contents.h"
#include "harness/core/check/block_overhead.h"
#include "harness/core/check/growth.h"
#include "harness/core/check/oom_cause.h"
#include "harness/core/check/ordered_reuse.h"
#include "harness/core/check/placement_recorder.h"
#include "harness/core/check/pool_watch.h"
#include "harness/core/check/shadow_heap.h"
#include "harness/core/check/stream_hazards.h"
#include "harness/core/check/stream_points.h"
#include "harness/core/check/timeline.h"
#include "harness/core/check/verify_level.h"
#include "harness/core/replay/placement_hash.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "results/schema.h"

namespace allocmark {

struct VerifySetup {
  ReplaySetup replay;  // without recorder and clocks
  BackendCapabilities capabilities;
  SimcuApi simcu;
  TraceFacts facts;
  VerifyLevel level = VerifyLevel::Edges;
  VerifyPart part = VerifyPart::All;
  std::uint64_t capacity_bytes = 0;  // what the device leaves, for OOM causes
  std::optional<std::uint64_t> limit_bytes = std::nullopt;  // of each process, likewise
  std::uint64_t device_bytes_before = 0;    // used_bytes_of() its side before the backend was made
  PlacementRecorder* placements = nullptr;  // gets every answer; null = none
  Timeline* timeline = nullptr;             // gets the moments of the pass; null = none
  const TickClock* clock = nullptr;         // for the time of the first calls; null = none
  UsualCalls* usual = nullptr;              // gets what calls take, by that clock; null = none
};

// Whether the check looks into blocks, so that it needs a replay of its own for that.
[[nodiscard]] constexpr bool looks_into_blocks(VerifyLevel level, bool real_memory) {
  return level != VerifyLevel::Off && real_memory;
}

// Bytes of the current device in use: what simcuda says, which does not move its clock, else
// cudaMemGetInfo.
[[nodiscard]] std::uint64_t device_used_bytes(const SimcuApi& simcu);

// The same of a side. What is pinned of a host beside a GPU nobody tells: 0.
[[nodiscard]] std::uint64_t used_bytes_of(MemorySide side, const SimcuApi& simcu);

struct VerifyReport {
  ReplayCounts counts;
  std::uint64_t placement_hash = 0;
  std::optional<std::string> broken_rule;  // text of the first one; the pass ends there
  // Blocks handed memory that a former user's stream may still use: on simcuda every one, on a GPU
  // as far as seen. Nothing where nobody looked. `unordered_reuse` is the first, on simcuda.
  std::optional<std::uint64_t> unordered_reuse_count;
  std::string unordered_reuse;
  std::uint64_t edges_only_count = 0;  // at the level whole: blocks of which only the ends fitted
  std::uint64_t unmarked_count = 0;    // at the level whole: blocks not looked into, behind a gate
  std::vector<std::uint64_t> oom_cause_counts = std::vector<std::uint64_t>(kOomCauseCount, 0);
  std::optional<OomEvent> oom_first;
  std::optional<std::uint64_t> allocated_bytes_peak, active_bytes_peak, reserved_bytes_peak;
  // At the moment when the reserved peak was first reached.
  std::optional<std::uint64_t> allocated_bytes_at_reserved_peak, requested_bytes_at_reserved_peak;
  std::optional<std::uint64_t> reserved_bytes_at_requested_peak;  // of requests that succeeded
  std::uint64_t host_bytes_peak = 0;                              // asked of the host at once
  std::uint64_t requested_bytes_peak = 0;                         // of requests that succeeded
  std::uint64_t device_bytes_peak = 0;
  std::optional<MemoryGrowth> growth;  // where the trace marks enough steps
  std::uint64_t cold_ticks = 0;        // of the first kColdCallCount calls
  std::vector<std::pair<std::string, std::int64_t>> driver_calls;
  std::vector<std::pair<std::string, std::int64_t>> pool_counters;  // empty without private pools
};

class Verifier {
 public:
  explicit Verifier(const VerifySetup& setup);

  // False where the pass is over: a broken rule, or a failed request under OomPolicy::Stop.
  bool run(const TraceBatch& batch);
  // At the level whole, after the last batch: looks at every block that is still live.
  void finish();
  // Gives back what is still live.
  void release_live();
  [[nodiscard]] VerifyReport report();

 private:
  struct Block {
    ShadowBlock shadow;
    void* pointer = nullptr;
    bool live = false;
    bool failed_before = false;      // kFailedBefore: nobody's, and in no sum of requests
    std::uint64_t marked_bytes = 0;  // at either end carry the pattern
  };

  bool allocate(const Event& event, const ReplayStep& step);
  void note_oom(const Event& event, std::uint64_t waiting_bytes_before);
  [[nodiscard]] OomSituation situation_of(const Event& event, const MemoryStats& stats,
                                          std::uint64_t waiting_bytes_before) const;
  [[nodiscard]] std::uint64_t live_bytes_of_process(std::size_t process) const;
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> free_by_stream() const;
  [[nodiscard]] std::uint64_t waiting_bytes() const;
  void note_growth();
  // What the device holds beyond what the backend says it reserved: pages larger than the requests.
  [[nodiscard]] std::uint64_t device_extra_bytes(const MemoryStats& stats) const;
  void check_place(const Block& block);
  void look_into_new(Block& block);
  // Whether the block's memory may still be in use by work of its former owner.
  bool check_early_reuse(const Block& block);
  void check_order(const Block& block);
  void check_range(const Block& block);
  // Whether the block is memory of the backend's side; on a GPU asked about some blocks.
  [[nodiscard]] bool is_on_side(const Block& block) const;
  void check_footprint(const MemoryStats& stats);
  void deallocate(const ReplayStep& step);
  void launch(std::uint32_t stream, std::uint64_t duration_ns);
  void synchronize();
  [[nodiscard]] bool asks_after_sync() const {
    return setup_.replay.on_oom == OomPolicy::RetryAfterSync && setup_.replay.work != nullptr;
  }
  void hold_host(const Event& event, const ReplayStep& step);
  void run_other(const Event& event, const ReplayStep& step);
  void note_peaks();
  void note_reserved_peak(const MemoryStats& stats);
  void note_device_peak(const MemoryStats& stats);
  [[nodiscard]] BlockContents::Block contents_of(const Block& block) const;
  void note_timeline();
  [[nodiscard]] std::vector<MemorySegment> live_segments() const;
  void write_pattern(Block& block);
  void check_pattern(const Block& block);
  void check_some_block();
  void fail_changed_word();
  [[nodiscard]] bool collects() const { return setup_.part != VerifyPart::Contents; }
  [[nodiscard]] bool checks_rules() const {
    return setup_.level != VerifyLevel::Off && setup_.part != VerifyPart::Contents;
  }
  [[nodiscard]] bool looks_inside() const {
    return setup_.level != VerifyLevel::Off && setup_.part != VerifyPart::Figures &&
           setup_.capabilities.real_memory;
  }
  [[nodiscard]] bool checks_whole() const {
    return looks_inside() && setup_.level == VerifyLevel::Whole;
  }
  [[nodiscard]] std::uint64_t now_ns() const;
  void note_work(std::uint32_t stream, std::uint64_t duration_ns);
  [[nodiscard]] bool use_is_over(const BrokenRule& use);
  [[nodiscard]] std::uint64_t used_bytes() const {
    return used_bytes_of(setup_.capabilities.side, setup_.simcu);
  }
  [[nodiscard]] bool has_gpu() const {
    return setup_.capabilities.real_memory && !setup_.simcu.present;
  }
  void fail(std::string text);

  VerifySetup setup_;
  VerifyReport report_;
  ShadowHeap heap_;
  PlacementHash placement_{setup_.replay.side};
  std::vector<Block> blocks_;  // by slot
  std::uint64_t requested_bytes_live_ = 0;
  std::uint64_t host_bytes_live_ = 0;
  std::uint64_t requested_bytes_peak_seen_ = 0;
  std::optional<std::uint64_t> reserved_bytes_seen_;
  bool marks_blocks_ = false;
  int device_ = 0;  // the one whose memory blocks have to be
  BlockContents contents_;
  BackendCalls calls_;
  BlockOverhead overhead_;
  std::optional<PoolWatch> pools_;     // where the trace has private pools
  std::optional<OrderedReuse> order_;  // on simcuda
  StreamHazards hazards_;              // on a GPU; at the level edges of busy kernels only
  StreamPoints points_;                // likewise
  Growth growth_;
  Random random_;  // which block is looked at between
};

}  // namespace allocmark
