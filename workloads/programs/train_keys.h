// The keys of generator train that have a file of their own, read one group after the other by
// read_train_config().
#pragma once

#include "workloads/programs/train_options.h"
#include "workloads/trace/parameters.h"

namespace allocmark {

// How the job is spread over GPUs: tp, sp, dp, pp, virtual, and which of the ranks is looked at.
void read_parallel(Parameters& parameters, TrainConfig* config);
void read_micro_batches(Parameters& parameters, TrainConfig* config);
// Who keeps gradients, parameters and the optimizer's states: zero, fsdp and their keys.
void read_data_parallel(Parameters& parameters, TrainConfig* config);

// Ranks that share every sequence, as PyTorch's context_parallel() has it and accelerate runs it:
// keys cp and rotate. Models and lengths are known, and whether there are stages.
void read_context(Parameters& parameters, TrainConfig* config);
// zero and fsdp have to let the ranks share the model, too.
void check_context_sharding(Parameters& parameters, const TrainConfig& config, std::uint64_t zero,
                            std::uint64_t fsdp);
// After every other key: what it cannot be joined with.
void check_context(Parameters& parameters, const TrainConfig& config);

// What a model is made of. First of all whose layers they are.
void read_implementation(Parameters& parameters, TransformerSetup* setup);
// After precision, parallel ranks, checkpoints and adapters, which these keys may contradict.
void read_windows(Parameters& parameters, TrainConfig* config);
void read_products(Parameters& parameters, TrainConfig* config);
void read_liger(Parameters& parameters, TrainConfig* config);
void read_vision(Parameters& parameters, TrainConfig* config);
// Which tokens attention must not see: padding, and other texts of a sequence.
void read_mask(Parameters& parameters, TrainConfig* config);
void read_packed(Parameters& parameters, TrainConfig* config);

// torch.compile. After all others, most of which it contradicts.
void read_compile(Parameters& parameters, TrainConfig* config);

}  // namespace allocmark
