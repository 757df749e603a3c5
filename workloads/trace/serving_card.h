// What a server's card computes and reads, as its vendor states it, and how much of that a server's
// kernels reach.
#pragma once

#include <cstdint>

namespace allocmark {

// Preset: an H200, whose figures stand in harness/simcuda/profiles/cards.tsv, too.
struct ServingCard {
  std::uint64_t tflops = 989;           // of dense products in bf16
  std::uint64_t gb_per_second = 4'800;  // of its memory

  // Kernels reach 50.6 % (500 of an H200's 989 Tflop/s) and 83.3 % of the stated figures.
  // results/published/history/generators.md compares the second with published tokens per second.
  [[nodiscard]] constexpr std::uint64_t flops_per_ns() const { return tflops * 500'000 / 989; }
  [[nodiscard]] constexpr std::uint64_t bytes_per_ns() const { return gb_per_second * 5 / 6; }

  [[nodiscard]] bool operator==(const ServingCard&) const = default;
};

}  // namespace allocmark
