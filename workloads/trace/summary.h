// What a trace asks of an allocator, in numbers: counted in one pass, in memory bounded by the live
// blocks. Defined in workloads/TRACES.md, "Trace summary".
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "workloads/trace/event_names.h"
#include "workloads/trace/source.h"

namespace allocmark {

inline constexpr std::size_t kOctaveCount = 64;

struct TraceSummary {
  TraceHeader header;
  std::uint64_t event_count = 0;
  std::array<std::uint64_t, kEventKindCount> kind_counts{};  // by EventKind
  std::uint64_t requested_bytes_total = 0;  // sum over all allocs, at most 2^64 - 1
  std::uint64_t requested_bytes_peak = 0;   // largest sum over live blocks
  std::uint64_t peak_event_index = 0;       // the alloc that reaches it first, 0-based
  std::uint64_t live_count_peak = 0;        // largest number of live blocks
  std::uint64_t leftover_count = 0;         // blocks that are never freed
  std::uint64_t leftover_bytes = 0;
  std::uint64_t zero_size_count = 0;  // allocs of 0 bytes
  // Requests that failed when the trace was recorded; in none of the numbers but kind_counts,
  // tensor_counts and these.
  std::uint64_t failed_count = 0;
  std::uint64_t failed_largest_bytes = 0;
  std::uint64_t largest_bytes = 0;  // largest request
  // Pinned memory of the host, which is in no other number but kind_counts.
  std::uint64_t host_bytes_peak = 0;  // largest sum over live blocks
  std::uint64_t host_leftover_count = 0;
  std::uint64_t host_leftover_bytes = 0;
  // Index n counts values from 2^n to 2^(n+1) - 1; zeros are left out.
  std::array<std::uint64_t, kOctaveCount> size_octave_counts{};  // requests by bytes
  std::array<std::uint64_t, kOctaveCount>
      lifetime_octave_counts{};  // freed blocks by events from alloc to free
  std::array<std::uint64_t, kTensorKindCount> tensor_counts{};  // allocs by TensorKind
  std::array<std::uint64_t, kTensorKindCount>
      tensor_bytes_peak{};  // largest live bytes of each kind
  std::uint32_t stream_count = 1;
  std::uint64_t label_count = 0;  // different mark labels
  std::uint64_t hash = 0;         // trace_hash
};

// Reads the source from its first event to its end; checks every event against the rules of a valid
// trace and throws UsageError where one is broken.
[[nodiscard]] TraceSummary summarize(EventSource& source);

// For people, many lines.
[[nodiscard]] std::string to_text(const TraceSummary& summary);

}  // namespace allocmark
