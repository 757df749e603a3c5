// infer's assisted generation: what it is made from.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/model/lengths.h"
#include "workloads/model/setup.h"
#include "workloads/trace/generated_source.h"
#include "workloads/trace/parameters.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct AssistedConfig {
  TransformerSetup target, draft;
  LengthSettings lengths;
  std::vector<std::uint64_t> sequences;  // given prompt lengths in turn; 0: drawn
  std::uint64_t request_count = 1;
  std::uint64_t draft_tokens = 5;
  std::uint64_t accept_percent = 70;  // chance of each guess to be right, given those before it
};

[[nodiscard]] std::unique_ptr<EventSource> make_assisted(Parameters& parameters,
                                                         const GeneratedTraits& traits,
                                                         const AssistedConfig& config);

}  // namespace allocmark
