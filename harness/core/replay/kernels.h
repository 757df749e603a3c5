// The kernels that stand for a program's work on a GPU, and those that write and check blocks.
// Plain declarations: the code is in kernels.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace allocmark {

// A kernel of one thread that runs for duration_ns.
[[nodiscard]] cudaError_t launch_spin_kernel(cudaStream_t stream, std::uint64_t duration_ns);

// A kernel of one thread that runs until *opened >= ticket, or until *progress has not changed for
// stall_ns_max. Both are mapped host memory as the device sees it.
struct GateKernel {
  const volatile std::uint64_t* opened = nullptr;
  const volatile std::uint64_t* progress = nullptr;
  std::uint64_t ticket = 0;
  std::uint64_t stall_ns_max = 0;
};
[[nodiscard]] cudaError_t launch_gate_kernel(cudaStream_t stream, const GateKernel& gate);

// A block that carries the pattern of harness/core/replay/block_pattern.h from end to end.
struct PatternBlock {
  void* block = nullptr;
  std::uint64_t size_bytes = 0;
  std::uint64_t event_index = 0;
  std::uint64_t id = 0;
  std::uint64_t flip = 0;  // the pattern's words are written with these bits inverted
};
[[nodiscard]] cudaError_t launch_write_pattern_kernel(cudaStream_t stream,
                                                      const PatternBlock& block);

// How many words the kernels have found changed, and the first of them, in mapped host memory.
struct PatternFault {
  unsigned long long word_count = 0;
  unsigned long long complete = 0;  // the rest is there
  PatternBlock block;
  std::uint64_t offset_bytes = 0;
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};
// `fault` is mapped host memory as the device sees it.
[[nodiscard]] cudaError_t launch_check_pattern_kernel(cudaStream_t stream,
                                                      const PatternBlock& block,
                                                      PatternFault* fault);

}  // namespace allocmark
