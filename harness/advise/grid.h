// The settings that are searched: what a user of PyTorch can put into PYTORCH_CUDA_ALLOC_CONF.
// Nothing flows in; config strings flow out, without those that the linter of 'allocmark explain'
// finds inert or in conflict.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

// Unset and one key at a time, 16 in all: what 'fit' looks at.
[[nodiscard]] std::vector<std::string> single_settings();

// The same with pairs of keys, 40 in all: what 'advise' looks at.
[[nodiscard]] std::vector<std::string> all_settings();

}  // namespace allocmark
