// Exact search for a packing below a height. In: blocks, a height. Out: a packing, the proof that
// there is none, or neither where the nodes did not suffice.
//
// Packings are built from below: blocks in order of their offsets, each as low as those before it
// allow. Every packing can be pushed down into such a one, so no other has to be looked at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "allocators/packing/packing.h"

namespace allocmark {

enum class PackAnswer : std::uint8_t { Found, None, Unknown };

struct ExactPacking {
  PackAnswer answer = PackAnswer::Unknown;
  std::vector<std::uint64_t> offsets{};  // where found
  std::uint64_t nodes_used = 0;
};

[[nodiscard]] ExactPacking search_packing(std::span<const BlockLife> blocks,
                                          std::uint64_t height_bytes, std::uint64_t nodes_max);

}  // namespace allocmark
