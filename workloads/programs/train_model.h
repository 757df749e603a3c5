// Keys of generator train that change what a model is made of: whose layers, windows of attention,
// products in float8, Liger-Kernel's operators, a ViT that sees images; masks.
#pragma once

#include "workloads/programs/train_options.h"

namespace allocmark {

// Whose layers they are.
void read_implementation(Parameters& parameters, TransformerSetup* setup);
// After precision, parallel ranks, checkpoints and adapters, which these keys may contradict.
void read_windows(Parameters& parameters, TrainConfig* config);
void read_products(Parameters& parameters, TrainConfig* config);
void read_liger(Parameters& parameters, TrainConfig* config);
void read_vision(Parameters& parameters, TrainConfig* config);
// Which tokens attention must not see: padding, and other texts of a sequence.
void read_mask(Parameters& parameters, TrainConfig* config);
void read_packed(Parameters& parameters, TrainConfig* config);

}  // namespace allocmark
