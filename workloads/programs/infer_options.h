// What generator infer is told to do, read from a workload's text. Every value is checked alone and
// against the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/model/functions.h"
#include "workloads/model/kv_cache.h"
#include "workloads/model/lengths.h"
#include "workloads/model/setup.h"
#include "workloads/trace/coroutine_program.h"
#include "workloads/trace/parameters.h"

namespace allocmark {

// A draft model that guesses tokens.
struct DraftConfig {
  TransformerSetup setup;
  std::uint64_t tokens = 5;           // guessed in a round
  std::uint64_t accept_percent = 70;  // chance of each guess to be right, given those before it
};

struct InferConfig {
  TransformerSetup setup;
  std::optional<DraftConfig> draft;
  LengthSettings lengths;
  KvMode kv_mode = KvMode::Concat;
  std::uint64_t request_count = 64;
  std::uint64_t batch_max = 8;
  std::vector<std::uint64_t> batches, sequences;  // given shapes in turn; 0: drawn
  std::vector<std::uint64_t> answers = {0};       // new tokens of each batch in turn; 0: drawn
  std::uint64_t beams = 1;
  WeightBits bits = WeightBits::Whole;  // of the blocks' matrices
  bool samples = false;                 // tokens are drawn instead of chosen
  bool pools = false;                   // encoders: embeddings are made, and nothing is kept
  bool padded = false;                  // masks are made as for batches of different lengths
  bool full_batches = true;             // else 1 to batch_max requests, as they happened to arrive
};

// Reads every key of infer but `events`.
[[nodiscard]] InferConfig read_infer_config(Parameters& parameters);

// infer with a draft model.
[[nodiscard]] std::unique_ptr<EventSource> make_assisted(Parameters& parameters,
                                                         const GeneratedTraits& traits,
                                                         const InferConfig& config);

}  // namespace allocmark
