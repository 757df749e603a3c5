// Key of generator train: torch.compile.
#pragma once

#include "workloads/programs/train_options.h"

namespace allocmark {

// After all others, most of which it contradicts.
void read_compile(Parameters& parameters, TrainConfig* config);

}  // namespace allocmark
