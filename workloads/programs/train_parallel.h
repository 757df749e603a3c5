// How generator train is spread over GPUs: the part of its options that says which rank is looked
// at and what the ranks share.
#pragma once

#include "workloads/programs/train_options.h"
#include "workloads/trace/parameters.h"

namespace allocmark {

// tp, sp, dp, pp, virtual, and which of the ranks is looked at.
void read_parallel(Parameters& parameters, TrainConfig* config);
void read_micro_batches(Parameters& parameters, TrainConfig* config);
// Who keeps gradients, parameters and the optimizer's states: zero, fsdp and their keys.
void read_data_parallel(Parameters& parameters, TrainConfig* config);

}  // namespace allocmark
