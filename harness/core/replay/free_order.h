// Whether a trace frees each stream's blocks in the reverse order of their requests, as a stack of
// memory needs it. In: a prepared trace. Out: the first free that breaks the order. Checks; times
// nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/core/replay/prepared_trace.h"

namespace allocmark {

struct UnorderedFree {
  std::uint64_t event_index = 0;     // from 0 on
  std::uint64_t block_id = 0;        // as in the trace
  std::uint64_t above_block_id = 0;  // asked for later on the same stream, and live
};

// Blocks of 0 bytes lie nowhere. What nobody frees stays where it is.
[[nodiscard]] std::optional<UnorderedFree> first_unordered_free(PreparedTrace& trace);

}  // namespace allocmark
