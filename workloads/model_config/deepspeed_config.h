// A DeepSpeed config as keys of generator `train`. JSON text flows in; keys and notes flow out, or
// what of the config no generator has.
#pragma once

#include <string>
#include <string_view>

#include "workloads/model_config/model_config.h"

namespace allocmark {

// "zero=3,zero_presets=trainer,...", and what the config says that no key can. "auto" is what
// transformers' Trainer and accelerate write there; batches and precisions that are "auto" are left
// to the workload's text. `where` is named in errors. Throws UsageError where the text is no such
// config, where it has a field that DeepSpeed 0.19.8 does not know, and where it asks for something
// that is not generated.
[[nodiscard]] DescribedWorkload read_deepspeed_config(std::string_view json,
                                                      const std::string& where);

}  // namespace allocmark
