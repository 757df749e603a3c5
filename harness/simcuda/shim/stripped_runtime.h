// The static CUDA runtime in a module whose symbol table was stripped. In: a loaded module. Out:
// which of its functions are the runtime's, and their names. Nothing is changed here.
//
// Each function of the runtime gives its own name to profilers, and first calls the one function
// that finds the runtime's state. The module's unwind table says where functions start and end. No
// byte of one version is needed: tried with 12.0 to 13.5.
#pragma once

#include <link.h>

#include <cstdint>
#include <string>
#include <vector>

namespace simcuda {

struct RuntimeFunction {
  std::uint64_t address = 0;
  std::uint64_t room_bytes = 0;  // to the function's end, or to the next one
  std::string name;
  bool is_known_by_code = false;  // and so surely the runtime's; else a symbol of its name
};

struct StrippedRuntime {
  std::vector<RuntimeFunction> functions;  // empty: none, or too little of it was recognised
  std::vector<std::string> ambiguous;      // names that several of its functions carry
  unsigned version = 0;                    // 13000 for CUDA 13.0
};

// Whether the module imports what each static runtime does: most modules are done with after this.
[[nodiscard]] bool may_carry_runtime(const dl_phdr_info& module);

[[nodiscard]] StrippedRuntime find_stripped_runtime(const dl_phdr_info& module);

// The version that this cudaRuntimeGetVersion answers; 0 where its code does not show one.
[[nodiscard]] unsigned runtime_version(const dl_phdr_info& module, std::uint64_t get_version);

}  // namespace simcuda
