#include "workloads/model/pipeline.h"

#include <algorithm>

namespace allocmark {
namespace {

std::uint64_t forward_count(const PipelineShape& shape) {
  return shape.micro_batches * shape.chunks;
}

// Forwards before the first backward's forward.
std::uint64_t warmup_count(const PipelineShape& shape) {
  const std::uint64_t below = shape.stages - shape.stage - 1;
  if (shape.chunks == 1) return std::min(below, shape.micro_batches);
  if (shape.fills_first && shape.micro_batches == shape.stages) return forward_count(shape);
  return std::min(2 * below + (shape.chunks - 1) * shape.stages, forward_count(shape));
}

// Forwards go through `stages` micro batches of one chunk, then of the next; backwards from the
// last chunk to the first.
PipelinePass numbered(const PipelineShape& shape, bool is_forward, std::uint64_t number) {
  const std::uint64_t round = shape.stages * shape.chunks;
  if (shape.chunks == 1) return {.is_forward = is_forward, .micro_batch = number, .chunk = 0};
  const std::uint64_t chunk = number % round / shape.stages;
  return {.is_forward = is_forward,
          .micro_batch = number / round * shape.stages + number % shape.stages,
          .chunk = is_forward ? chunk : shape.chunks - 1 - chunk};
}

}  // namespace

std::uint64_t pipeline_pass_count(const PipelineShape& shape) { return 2 * forward_count(shape); }

std::uint64_t passes_in_flight_max(const PipelineShape& shape) {
  return std::min(warmup_count(shape) + 1, forward_count(shape));
}

PipelinePass pipeline_pass(const PipelineShape& shape, std::uint64_t index) {
  const std::uint64_t warmup = warmup_count(shape);
  const std::uint64_t total = forward_count(shape);
  if (index < warmup) return numbered(shape, true, index);
  const std::uint64_t steady = index - warmup;
  if (steady >= 2 * (total - warmup)) return numbered(shape, false, index - total);
  const bool is_forward = steady % 2 == 0;
  return numbered(shape, is_forward, is_forward ? warmup + steady / 2 : steady / 2);
}

}  // namespace allocmark
