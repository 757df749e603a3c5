// The order in which one stage of a pipeline runs its forwards and backwards: 1F1B, and interleaved
// 1F1B where each rank holds several chunks of the model (Narayanan et al., SC 2021). Without a
// pipeline: forward, backward, forward, backward.
#pragma once

#include <cstdint>

namespace allocmark {

struct PipelineShape {
  std::uint64_t stages = 1;
  std::uint64_t stage = 0;
  std::uint64_t chunks = 1;         // of the model on each rank
  std::uint64_t micro_batches = 1;  // a multiple of `stages` where chunks > 1
  // Megatron-LM with chunks and as many micro batches as stages: all forwards come first.
  bool fills_first = false;
};

struct PipelinePass {
  bool is_forward = true;
  std::uint64_t micro_batch = 0;
  std::uint64_t chunk = 0;
};

// Forwards and backwards of one optimizer step.
[[nodiscard]] std::uint64_t pipeline_pass_count(const PipelineShape& shape);
// The index-th of them.
[[nodiscard]] PipelinePass pipeline_pass(const PipelineShape& shape, std::uint64_t index);
// The most forwards whose backward is still to come.
[[nodiscard]] std::uint64_t passes_in_flight_max(const PipelineShape& shape);

}  // namespace allocmark
