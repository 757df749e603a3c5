// The order in which a pipeline's stages run their passes.
#include "workloads/model/pipeline.h"

#include <cstdint>
#include <string>

#include "tests/catch.h"

namespace allocmark {
namespace {

// "F0 F1 B0 ...": micro batches, with the chunk after a dot where there are several.
std::string passes_of(const PipelineShape& shape) {
  std::string text;
  for (std::uint64_t i = 0; i < pipeline_pass_count(shape); ++i) {
    const PipelinePass pass = pipeline_pass(shape, i);
    text += (pass.is_forward ? " F" : " B") + std::to_string(pass.micro_batch);
    if (shape.chunks > 1) text += "." + std::to_string(pass.chunk);
  }
  return text.substr(1);
}

TEST_CASE("a pipeline's stages run one forward, one backward after a warm-up") {
  CHECK(passes_of({.micro_batches = 3}) == "F0 B0 F1 B1 F2 B2");
  CHECK(passes_of({.stages = 4, .stage = 0, .micro_batches = 6}) ==
        "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  CHECK(passes_of({.stages = 4, .stage = 2, .micro_batches = 3}) == "F0 F1 B0 F2 B1 B2");
  CHECK(passes_of({.stages = 4, .stage = 3, .micro_batches = 3}) == "F0 B0 F1 B1 F2 B2");
  CHECK(passes_of({.stages = 4, .stage = 0, .micro_batches = 2}) == "F0 F1 B0 B1");
  CHECK(passes_in_flight_max({.stages = 4, .stage = 1, .micro_batches = 8}) == 3);
}

TEST_CASE("interleaved stages go through their chunks") {
  CHECK(passes_of({.stages = 2, .stage = 0, .chunks = 2, .micro_batches = 4}) ==
        "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  CHECK(passes_of({.stages = 2, .stage = 1, .chunks = 2, .micro_batches = 4}) ==
        "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  CHECK(passes_of({.stages = 2, .stage = 0, .chunks = 2, .micro_batches = 2}) ==
        "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  CHECK(passes_of({.stages = 4, .stage = 2, .chunks = 2, .micro_batches = 4}) ==
        "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 B0.1 F3.1 B1.1 B2.1 B3.1 B0.0 B1.0 B2.0 B3.0");
  // Megatron-LM with as many micro batches as stages: all forwards first.
  CHECK(
      passes_of({.stages = 4, .stage = 2, .chunks = 2, .micro_batches = 4, .fills_first = true}) ==
      "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 B0.1 B1.1 B2.1 B3.1 B0.0 B1.0 B2.0 B3.0");
  CHECK(
      passes_of({.stages = 2, .stage = 0, .chunks = 2, .micro_batches = 2, .fills_first = true}) ==
      "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  CHECK(passes_in_flight_max({.stages = 8, .stage = 0, .chunks = 3, .micro_batches = 64}) == 31);
}

}  // namespace
}  // namespace allocmark
