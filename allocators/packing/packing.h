// Offline packing: where each of a program's blocks goes when all of them are known beforehand.
// The yardstick for allocators, which do not know. In: blocks with lifetimes. Out: offsets and a
// height. Simulates and checks; times nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace allocmark {

// Live in [begin, end), in any unit of time that grows.
struct BlockLife {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // above begin
  std::uint64_t size_bytes = 0;
};

// What is spent on a packing. Counted, not timed, so that a packing is the same on every machine.
struct PackEffort {
  std::uint64_t comparisons = 2'000'000'000;  // of two blocks, by first fits in changed orders
  std::uint64_t nodes = 2'000'000;  // of the exact search, in all; one of many blocks counts more
  std::size_t exact_blocks_max = 2000;  // more are not searched exactly
};

struct BlockPacking {
  std::vector<std::uint64_t> offsets{};  // by block
  std::uint64_t height_bytes = 0;        // memory that the packing takes
  std::uint64_t bound_bytes = 0;         // most bytes live at once: no packing takes less
  bool is_best = false;    // no packing is lower: it meets the bound, or search has shown it
  std::string found_by{};  // "first fit by size", "exact search" ...
};

// Most bytes live at once.
[[nodiscard]] std::uint64_t peak_bytes(std::span<const BlockLife> blocks);

// The lowest packing that the effort finds. Blocks of 0 bytes lie at 0 and meet nothing.
[[nodiscard]] BlockPacking pack_blocks(std::span<const BlockLife> blocks, const PackEffort& effort);

// The lowest of first fits in orders, until one meets the bound. All but the first must have room
// in so many comparisons of blocks. For bounds beside results.
[[nodiscard]] BlockPacking pack_quickly(std::span<const BlockLife> blocks,
                                        std::uint64_t comparisons);

// Two blocks that live at the same time and share a byte, or one that ends above the height; empty
// where there are none. For packings of others, too.
[[nodiscard]] std::string fault_of(std::span<const BlockLife> blocks, const BlockPacking& packing);

}  // namespace allocmark
