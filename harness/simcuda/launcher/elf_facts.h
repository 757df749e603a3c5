// How a program gets its CUDA runtime, read from its file. In: a path. Out: what the dynamic linker
// will load for it.
#pragma once

#include <string>
#include <vector>

namespace simcuda {

struct ElfFacts {
  std::vector<std::string> needed;  // libraries by name, as the file lists them
  bool has_rpath = false;           // DT_RPATH, which is asked before LD_LIBRARY_PATH
};

// Nothing of a file that is not ELF of 64 bit, as a script. Throws std::runtime_error where the
// file cannot be read.
[[nodiscard]] ElfFacts read_elf_facts(const std::string& path);

}  // namespace simcuda
