// First fit offline: blocks in some order, each at the lowest offset that is free while it lives.
// In: blocks, an order. Out: offsets.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "allocators/packing/packing.h"

namespace allocmark {

struct PackOrder {
  std::string_view name;  // "size"
  std::vector<std::uint32_t> blocks;
};

// Large before small, long before short, and the like.
[[nodiscard]] std::vector<PackOrder> pack_orders(std::span<const BlockLife> blocks);

// Those in which an exact search finds packings soon.
[[nodiscard]] std::vector<PackOrder> search_orders(std::span<const BlockLife> blocks);

// `height_limit_bytes`: given up, with a greater height and no offsets, once a block ends above it.
[[nodiscard]] BlockPacking first_fit(std::span<const BlockLife> blocks,
                                     std::span<const std::uint32_t> order,
                                     std::uint64_t height_limit_bytes = ~std::uint64_t{0});

}  // namespace allocmark
