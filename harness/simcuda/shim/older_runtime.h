// Our functions for static runtimes of any version: of this toolkit's major version as they are, of
// CUDA 12 where ours are CUDA 13's through lib/simcuda/libcudart.so.12. In: a version and a name.
// Out: a function with the interface that this version has.
#pragma once

#include <string>

namespace simcuda {

// Runtimes of this version need the older library, and it was not loaded yet.
[[nodiscard]] bool needs_older_library(unsigned version);
// Loads it, or finds that it is not there. Not within dl_iterate_phdr.
void load_older_library();

// Whether we have functions with this version's interface. `version` 0: not known, taken for this
// toolkit's.
[[nodiscard]] bool has_functions_for(unsigned version);
// Null where we have no such function, or none with that version's interface.
[[nodiscard]] void* function_for_runtime(unsigned version, const std::string& name);

}  // namespace simcuda
