// Events become steps that the replayer can run without looking anything up: trace ids turn into
// slots of a dense table, and a slot is used again after its block was freed, so memory follows the
// live blocks and not the length of the trace. Facts about the trace (counts and peaks) fall out on
// the way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/divided_up.h"
#include "workloads/trace/event.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {

// The label of what recorders write before a program's first step.
inline constexpr std::string_view kPreambleLabel = "begin";
inline constexpr std::uint32_t kNoLabel = ~std::uint32_t{0};

// Set in ReplayStep::size_class.
inline constexpr std::uint8_t kFailedBefore = 0x80;

// One event, ready to run.
struct ReplayStep {
  std::uint64_t size_bytes = 0;  // as Event::size_bytes; Free, HostFree: the block's size; Mark:
                                 // time in ns
  std::uint32_t slot = 0;    // Alloc, Free, Record; Mark: index of its label; Pool..., Trim: pool
  std::uint16_t stream = 0;  // as Event::stream; Free: the stream of the block's allocation
  EventKind kind = EventKind::Mark;
  std::uint8_t size_class = 0;  // Alloc, Free: may have kFailedBefore; Mark: its MarkClass

  // A request that failed when the trace was recorded, after which the program went on, or its
  // free: it is asked, and counts neither as a request nor as out of memory.
  [[nodiscard]] bool failed_before() const {
    return (size_class & kFailedBefore) != 0 &&
           (kind == EventKind::Alloc || kind == EventKind::Free);
  }
  [[nodiscard]] MarkClass mark_class() const { return static_cast<MarkClass>(size_class); }
  friend bool operator==(const ReplayStep&, const ReplayStep&) = default;
};
static_assert(sizeof(ReplayStep) == 16);

// In bounds every request counts in units of so many bytes, as most allocators align.
inline constexpr std::uint64_t kBoundRoundBytes = 512;
[[nodiscard]] constexpr std::uint64_t bound_rounded(std::uint64_t size_bytes) {
  return rounded_up(size_bytes, kBoundRoundBytes);
}

struct TraceFacts {
  std::uint64_t event_count = 0;
  std::uint64_t allocate_count = 0;
  std::uint64_t deallocate_count = 0;
  std::uint64_t mark_count = 0;             // of steps
  std::uint64_t request_mark_count = 0;     // of requests (request_marks.h)
  std::uint64_t meeting_count = 0;          // of ranks (likewise)
  std::uint64_t work_count = 0;             // Kernel and Busy events
  std::uint64_t busy_count = 0;             // Busy events
  std::uint64_t kernel_ns_total = 0;        // durations of all Kernel events
  std::uint64_t host_ns_total = 0;          // durations of all Host events
  std::uint64_t requested_bytes_peak = 0;   // largest sum of live requests
  std::uint64_t rounded_bytes_peak = 0;     // likewise, each rounded up to kBoundRoundBytes
  std::uint32_t preamble_label = kNoLabel;  // index of kPreambleLabel, where a mark has it
  std::uint32_t stream_count = 1;           // 1 + the highest stream index used
  // Requests that failed when the trace was recorded, after which the program went on; in none of
  // the counts above but event_count.
  std::uint64_t failed_before_count = 0;
  std::uint64_t pool_event_count = 0;  // of private pools
  std::uint64_t record_count = 0;      // of uses on other streams
};

// Block id to slot: an open-addressing table whose memory follows the number of live blocks.
class SlotMap {
 public:
  SlotMap();
  // False where the id is there already.
  [[nodiscard]] bool insert(std::uint64_t id, std::uint32_t slot);
  // The slot, or kNoSlot.
  [[nodiscard]] std::uint32_t find(std::uint64_t id) const;
  // Removes the id and returns its slot, or kNoSlot.
  [[nodiscard]] std::uint32_t take(std::uint64_t id);
  [[nodiscard]] std::size_t size() const { return count_; }

  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::uint32_t slot = kNoSlot;
  };
  [[nodiscard]] std::size_t home_of(std::uint64_t id) const {
    return static_cast<std::size_t>((id * 0x9E3779B97F4A7C15u) >> shift_);
  }
  [[nodiscard]] std::size_t position_of(std::uint64_t id) const;
  void grow();

  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  unsigned shift_ = 0;  // 64 - log2(entries_.size())
};

class TraceCompiler {
 public:
  // Requests that failed when the trace was recorded are requests like others from that event on:
  // the program ended with them (workloads/TRACES.md). 0: all are.
  explicit TraceCompiler(std::uint64_t wanted_from_event = 0)
      : wanted_from_event_(wanted_from_event) {}

  // Appends one step per event. Throws UsageError where an event breaks a rule of traces: an id
  // allocated while live, a free or record of an id that is not live, too many streams, live
  // requests beyond 2^64 bytes. `labels`: the source's, by index; marks beyond them end steps.
  void compile(std::span<const Event> events, std::vector<ReplayStep>& steps,
               std::span<const std::string> labels = {});

  [[nodiscard]] const TraceFacts& facts() const { return facts_; }
  // Slots used so far; all slots of the steps made so far are below it.
  [[nodiscard]] std::uint32_t slot_count() const {
    return static_cast<std::uint32_t>(blocks_.size());
  }

 private:
  struct Block {
    std::uint64_t size_bytes = 0;
    std::uint16_t stream = 0;
    std::uint8_t size_class = 0;
  };
  ReplayStep compile_alloc(const Event& event);
  ReplayStep compile_free(const Event& event);
  std::uint32_t compile_pool(const Event& event);
  // A block of the host: its size.
  std::uint64_t compile_host(const Event& event);
  ReplayStep compile_mark(const Event& event, std::span<const std::string> labels);
  void check_stream(const Event& event);
  [[nodiscard]] std::uint32_t slot_acquire();
  [[nodiscard]] bool failed_before(const Event& event) const {
    return event.tensor == TensorKind::Failed && facts_.event_count < wanted_from_event_;
  }

  std::uint64_t wanted_from_event_;
  TraceFacts facts_;
  SlotMap slots_;
  std::vector<Block> blocks_;  // by slot
  std::vector<std::uint32_t>
      free_slots_;  // last freed is used first: its table line is still in the cache
  std::unordered_map<std::uint64_t, std::uint64_t> host_blocks_;  // live ones' bytes, by id
  std::uint64_t requested_bytes_ = 0;
  std::uint64_t rounded_bytes_ = 0;
  std::vector<MarkClass> mark_classes_;  // by label
};

}  // namespace allocmark
