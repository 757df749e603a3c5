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

// "did you mean train:gpt2-124m,batch=8?" where a word that is a workload's key stands behind the
// workload, as a word of its own; `words` are in the order they were given. Empty where none does.
[[nodiscard]] std::string joined_keys_hint(const std::vector<std::string>& words);

// Throws UsageError where one of the workloads is such a word.
void refuse_split_workloads(const std::vector<std::string>& workloads);

}  // namespace allocmark
