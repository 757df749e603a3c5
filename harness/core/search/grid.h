// The settings that are searched: what a user of PyTorch can put into PYTORCH_CUDA_ALLOC_CONF.
// A release flows in; config strings flow out, without those that it does not know and those that
// the linter of 'allocmark explain' finds inert or in conflict.
#pragma once

#include <string>
#include <vector>

#include "allocators/caching/release.h"

namespace allocmark {

// Unset and one key at a time, at most 16: what 'fit' looks at.
[[nodiscard]] std::vector<std::string> single_settings(
    const caching::Rules& rules = caching::newest_rules());

// The same with pairs of keys, at most 40: what 'advise' looks at.
[[nodiscard]] std::vector<std::string> all_settings(
    const caching::Rules& rules = caching::newest_rules());

}  // namespace allocmark
