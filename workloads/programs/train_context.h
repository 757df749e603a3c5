// Context parallelism of generator train: ranks that share every sequence, as PyTorch's
// context_parallel() has it and accelerate runs it.
#pragma once

#include "workloads/programs/train_options.h"
#include "workloads/trace/parameters.h"

namespace allocmark {

// Keys cp and rotate. Models and lengths are known, and whether there are stages.
void read_context(Parameters& parameters, TrainConfig* config);
// zero and fsdp have to let the ranks share the model, too.
void check_context_sharding(Parameters& parameters, const TrainConfig& config, std::uint64_t zero,
                            std::uint64_t fsdp);
// After every other key: what it cannot be joined with.
void check_context(Parameters& parameters, const TrainConfig& config);

}  // namespace allocmark
