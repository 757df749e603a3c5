// What a word that stands where no word belongs may have been meant as.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

// "did you mean --workload gpt2_train_amp?" where it names a workload, and so for scenarios,
// suites, allocators, devices and config strings; empty where it is none of them, or where none of
// the `options` takes it.
[[nodiscard]] std::string option_for(const std::string& word,
                                     const std::vector<std::string>& options);

}  // namespace allocmark
