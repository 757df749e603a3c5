// A module's kernels and device variables, from its start-up code that nvcc writes, which hands
// them to the module's own static runtime before simcuda can see it. In: a loaded module. Out:
// names.
#pragma once

#include <link.h>

#include <cstdint>
#include <map>
#include <string>

#include "harness/simcuda/shim/code_facts.h"

namespace simcuda {

// By the address of the host's function or variable that stands for the device's.
struct Registrations {
  std::map<std::uint64_t, std::string> kernels;  // mangled names
  std::map<std::uint64_t, VariableFacts> variables;
};

// Those of relocatable device code (nvcc -rdc) are not among them.
[[nodiscard]] Registrations read_registrations(const dl_phdr_info& module);

// The runtime's __cudaRegisterFatBinary, which that code calls first; 0 where there is none.
[[nodiscard]] std::uint64_t register_binary_function(const dl_phdr_info& module);

}  // namespace simcuda
