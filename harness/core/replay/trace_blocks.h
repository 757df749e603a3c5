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

}  // namespace allocmark
