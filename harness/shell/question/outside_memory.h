// What a process takes of a card beside PyTorch's cached memory: the CUDA context, the code of the
// kernels that it used, and what libraries keep. nvidia-smi shows it, memory_reserved() does not. A
// card and a release flow in; bytes and how they are known flow out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace allocmark {

struct OutsideMemory {
  std::uint64_t context_bytes = 0;  // before any kernel
  std::uint64_t modules_bytes = 0;  // kernels and libraries, as they are loaded when first used
  std::uint64_t low_bytes = 0, high_bytes = 0;  // of both together
  std::string basis = {};                       // "measured on ...", "as an H100, ..."

  [[nodiscard]] std::uint64_t total_bytes() const { return context_bytes + modules_bytes; }
};

// What decides which kernels and libraries a program loads, and how many do.
struct LoadedLibraries {
  std::uint64_t process_count = 1;  // each has a context, kernels and libraries of its own
  bool convolutions = false;        // a whole network of them, not a cut into patches alone
};

// Of a workload as it was typed, with so many jobs in its trace's header.
[[nodiscard]] LoadedLibraries libraries_of(std::string_view workload, std::size_t job_count);

// `device`: "sim:h100"; one that nobody measured gets another's numbers and a wider range.
[[nodiscard]] OutsideMemory outside_memory(std::string_view device, const LoadedLibraries& loaded);

}  // namespace allocmark
