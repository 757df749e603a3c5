// Names of functions as tests write them: which exist, and what was meant by one that does not. In:
// names. Out: texts for messages.
#pragma once

#include <string>

namespace simcuda {

// A function of ours by its full name, null where we have none.
[[nodiscard]] void* own_function(const std::string& name);

// The CUDA function is exported, implemented or not.
[[nodiscard]] bool is_exported(const std::string& name);
// "no function 'cudaMaloc'; did you mean 'cudaMalloc'?"
[[nodiscard]] std::string no_such_function(const std::string& name);
// Why calls of `name` cannot be made to fail; empty where they can.
[[nodiscard]] std::string wrong_fault_name(const std::string& name);

}  // namespace simcuda
