// Writes what an allocator answered, as a golden for 'allocmark parity': every placement, failure,
// change of reserved memory, and all counters (format: allocators/CACHING.md). Calls of the checked
// pass flow in, lines flow out. Checks nothing, times nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "allocators/backend/backend.h"
#include "base/output_file.h"

namespace allocmark {

// Where a backend does not tell its segments, places are written relative to such a boundary, as if
// all between two of them were a segment.
inline constexpr std::uint64_t kPlacementRegionBytes = std::uint64_t{1} << 40;

struct PlacementHeader {
  std::uint64_t device_total_bytes = 0;
  std::uint64_t limit_bytes = 0;  // that the allocator itself enforces; 0 = none
  std::string allocator = {};
  std::string conf = {};
  std::string release = {};  // of PyTorch, whose rules the allocator follows; empty: none
};

class PlacementRecorder {
 public:
  // `file` and `backend` outlive this.
  PlacementRecorder(OutputFile& file, const Backend& backend, const PlacementHeader& header);

  // After each allocation, with the operation's 0-based index.
  void note_allocation(std::uint64_t operation, const AllocateResult& result);
  // After each operation of any kind, with how many there were.
  void note_operation(std::uint64_t operation_count);
  // At the end of the trace.
  void end(std::uint64_t operation_count);

 private:
  struct Segment {
    std::uint64_t size_bytes = 0;
    std::uint64_t ordinal = 0;
  };

  [[nodiscard]] std::uint64_t look_at_segments();
  void note_reserved(std::uint64_t operation, const MemoryStats& stats,
                     std::uint64_t segment_count);
  [[nodiscard]] const std::pair<const std::uint64_t, Segment>* segment_of(
      std::uint64_t address) const;
  void write_place(std::uint64_t address);
  void write_counters(std::uint64_t operation_count);

  OutputFile& file_;
  const Backend& backend_;
  bool
      places_;  // false: only success and failure, as PyTorch's goldens have it for cudaMallocAsync
  std::map<std::uint64_t, Segment> segments_;  // by address
  std::uint64_t ordinal_next_ = 0;
  std::optional<std::uint64_t> device_calls_;  // allocations and frees when segments were looked at
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t segment_count_ = 0;
  bool failed_before_ = false;
};

}  // namespace allocmark
