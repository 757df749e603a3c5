// What a request that the cache serves costs on `caching` and on `torch`, PyTorch's own allocator:
// the same recorded trace, in one process, in turns. Needs the plugin and simcuda. This file times.
#pragma once

#include <cstdint>
#include <string>

namespace allocmark {

struct HitFigures {
  // Nearest-rank quantiles over all calls that needed nothing from the device, without the clock's
  // own cost.
  double allocate_ns_p50 = 0, allocate_ns_p99 = 0;
  double deallocate_ns_p50 = 0, deallocate_ns_p99 = 0;
  // The whole loop without a clock in it, per allocation with its free: mean processor time of the
  // best round.
  double pair_ns_mean = 0;
  std::uint64_t allocate_count = 0, deallocate_count = 0;
};

struct HitComparison {
  std::string workload;
  std::string reason;  // why there are no figures
  HitFigures caching;
  HitFigures torch;
};

struct HitOptions {
  std::string workload = "gpt2_train_amp";
  std::string conf{};  // of both; c10 takes one per process
  std::uint64_t round_count = 40;
};

[[nodiscard]] HitComparison measure_hits(const HitOptions& options);

// A line per figure: caching, torch, their ratio and the target (0.5).
[[nodiscard]] std::string to_text(const HitComparison& comparison);

}  // namespace allocmark
