// A memory snapshot of PyTorch, as torch.cuda.memory._dump_snapshot() writes it: the history of the
// allocator (entries) and what it held when the snapshot was taken (segments). Made by
// read_memory_snapshot(); compact, because a history may have 16 million entries.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace allocmark {

enum class SnapshotAction : std::uint8_t {
  Alloc,
  FreeRequested,
  FreeCompleted,
  SegmentAlloc,
  SegmentFree,
  SegmentMap,
  SegmentUnmap,
  Snapshot,
  Oom,
  Annotate,
  Unknown,  // a newer PyTorch's; has no effect
};

[[nodiscard]] std::string_view to_string(SnapshotAction action);

inline constexpr std::uint32_t kNoStack = 0;

// One entry of the history, in 32 bytes.
struct SnapshotEntry {
  std::uint64_t address = 0;  // Oom: the bytes that the device had free
  std::uint64_t size_bytes : 50 = 0;
  std::uint64_t stream : 12 = 0;    // index into MemorySnapshot::streams
  std::uint64_t synthetic : 1 = 0;  // the allocator's own pair, no request of the program
  std::uint64_t has_pool : 1 = 0;   // `pool` was written with the entry
  std::uint64_t time_us : 44 = 0;   // since the first entry
  std::uint64_t pool : 12 = 0;      // index into MemorySnapshot::pools
  SnapshotAction action : 8 = SnapshotAction::Unknown;
  std::uint32_t stack = kNoStack;  // index into MemorySnapshot::stacks
};
static_assert(sizeof(SnapshotEntry) == 32);

enum class SnapshotBlockState : std::uint8_t { Allocated, PendingFree, Inactive };

struct SnapshotBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;       // rounded
  std::uint64_t requested_bytes = 0;  // the rounded size where the file does not say
  std::uint32_t stack = kNoStack;
  SnapshotBlockState state = SnapshotBlockState::Inactive;
};

// What one cudaMalloc gave, or one mapped range of an expandable segment.
struct SnapshotSegment {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t device = 0;
  std::uint64_t first_block = 0;  // index into MemorySnapshot::blocks; blocks tile the segment
  std::uint64_t block_count = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = 0;
  std::uint32_t stack = kNoStack;
  bool is_large = false;
  bool is_expandable = false;
};

// Pinned memory of the host in PyTorch's cache (2.14, record_pinned_host_memory=True). A segment is
// one block. All sizes are as PyTorch rounded them; the file does not say what was asked.
struct SnapshotHost {
  std::uint64_t segment_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t held_bytes = 0;            // of them in blocks that are not free
  std::vector<SnapshotBlock> held_blocks;  // these
  std::vector<std::uint64_t> entries;      // indexes into MemorySnapshot::entries, in order
};

struct SnapshotFrame {
  std::uint32_t file = 0;  // index into MemorySnapshot::texts
  std::uint32_t name = 0;
  std::uint32_t line = 0;
};

// record_function: a range of the program begins or ends.
struct SnapshotAnnotation {
  std::uint32_t name = 0;  // index into MemorySnapshot::texts
  bool is_start = false;
  std::int64_t device = 0;
  std::uint64_t time_us = 0;  // since the first entry; 0 where it was before
};

struct SnapshotSettings {
  bool known = false;  // files of PyTorch 2.3 and older have none
  std::string conf;    // the last PYTORCH_CUDA_ALLOC_CONF that was read
  std::int64_t max_split_bytes = -1;
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  std::vector<std::pair<std::string, std::uint64_t>> roundup_divisions;  // "256" (MiB) -> divisions
};

// Entries that follow each other in MemorySnapshot::entries.
struct SnapshotRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

struct MemorySnapshot {
  std::string path;
  std::deque<SnapshotEntry> entries;
  std::vector<std::vector<SnapshotRange>> traces;  // by device
  std::vector<SnapshotSegment> segments;
  std::vector<SnapshotBlock> blocks;
  std::vector<SnapshotAnnotation> annotations;
  SnapshotSettings settings;
  SnapshotHost host;
  std::vector<std::uint64_t> streams = {0};                             // raw, as cudaStream_t
  std::vector<std::pair<std::int64_t, std::int64_t>> pools = {{0, 0}};  // 0 is the common one
  std::vector<std::string> texts;
  std::vector<SnapshotFrame> frames;
  std::vector<std::vector<std::uint32_t>> stacks = {{}};  // innermost frame first
  std::uint64_t time_us_first = 0;                        // Unix time of the first entry
  std::uint64_t untiled_count = 0;                        // segments that blocks do not fill

  [[nodiscard]] std::uint64_t entry_count(std::size_t device) const;
  [[nodiscard]] std::span<const SnapshotBlock> blocks_of(const SnapshotSegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.block_count);
  }
  // The device that a reader of one history looks at: of those where a request failed, else of all,
  // the one with the most entries; 0 where there are none.
  [[nodiscard]] std::size_t main_device() const;
  // Whether a request failed on it while the history was kept.
  [[nodiscard]] bool failed_on(std::size_t device) const;
  template <typename Action>
  void for_each_entry(std::size_t device, Action action) const {
    if (device >= traces.size()) return;
    for (const SnapshotRange& range : traces[device]) {
      for (std::uint64_t i = 0; i < range.count; ++i) action(entries[range.first + i]);
    }
  }
};

// Reads a whole file in one pass. Executes nothing: the reader knows the opcodes that snapshots
// need and refuses every other with its name and offset. Throws UsageError for what is no snapshot.
[[nodiscard]] MemorySnapshot read_memory_snapshot(const std::string& path);

// UsageError: this snapshot has no history, and how to record one.
[[noreturn]] void throw_without_history(const MemorySnapshot& snapshot);

}  // namespace allocmark
