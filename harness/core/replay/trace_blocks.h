// When each block of a trace lives, for packings. In: a prepared trace. Out: blocks; nothing where
// there are too many to pack. Nothing here is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocators/packing/packing.h"
#include "harness/core/replay/prepared_trace.h"

namespace allocmark {

struct TraceBlocks {
  std::vector<BlockLife> lives{};    // sizes as requested; times are numbers of events, from 1 on
  std::vector<std::uint64_t> ids{};  // by block, as in the trace
};

// A block that nobody frees ends with the trace. Requests that failed when the trace was recorded
// hold nothing. All streams and processes are one program.
[[nodiscard]] std::optional<TraceBlocks> blocks_of(PreparedTrace& trace, std::size_t count_max);

// Whether a trace frees each stream's blocks in the reverse order of their requests, as a stack of
// memory needs it. In: a prepared trace. Out: the first free that breaks the order. Checks; times
// nothing.
struct UnorderedFree {
  std::uint64_t event_index = 0;     // from 0 on
  std::uint64_t block_id = 0;        // as in the trace
  std::uint64_t above_block_id = 0;  // asked for later on the same stream, and live
};

// Blocks of 0 bytes lie nowhere. What nobody frees stays where it is.
[[nodiscard]] std::optional<UnorderedFree> first_unordered_free(PreparedTrace& trace);

}  // namespace allocmark
