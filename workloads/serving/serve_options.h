// The keys of generator serve, read and checked against each other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "workloads/model/lengths.h"
#include "workloads/model/shapes.h"
#include "workloads/serving/arrivals.h"
#include "workloads/serving/decode_graphs.h"
#include "workloads/serving/engine.h"
#include "workloads/serving/scheduler.h"
#include "workloads/trace/parameters.h"
#include "workloads/trace/serving_card.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct ServeConfig {
  EngineSetup target;
  GraphSettings graphs;
  std::optional<EngineSetup> draft;  // guesses limits.draft_tokens tokens ahead
  SchedulerLimits limits;
  ArrivalSettings arrivals;
  LengthSettings lengths;
  std::uint64_t request_count = 256;
  std::uint64_t accept_percent = 70;  // chance of each guess to be right, given those before it
};

// Lengths are a stream of random numbers of their own, so that another arrival process leaves them
// alone.
inline constexpr std::uint64_t kLengthSeed = 0x6C656E67;

// Each throws UsageError with key, allowed values and the text given.
[[nodiscard]] ServeConfig read_serve_config(Parameters& parameters, const ModelShape& model,
                                            std::uint64_t ranks);
[[nodiscard]] ArrivalSettings read_arrivals(Parameters& parameters);
[[nodiscard]] ServingCard read_serving_card(Parameters& parameters);
struct LengthBounds {
  std::uint64_t longest = 0;         // tokens of prompt and answer that the model can have
  std::uint64_t context_preset = 0;  // where context_max is not given
  std::uint64_t generated_preset = 0;
  bool generates = true;
};
[[nodiscard]] LengthSettings read_lengths(Parameters& parameters, const LengthBounds& bounds);

// The encoder's side of serve.
[[nodiscard]] std::unique_ptr<EventSource> make_embedding_service(Parameters& parameters,
                                                                  const ModelShape& model,
                                                                  std::uint64_t seed);

}  // namespace allocmark
