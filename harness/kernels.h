// The kernels that stand for a program's work on a GPU, and those that write and check blocks.
// Plain declarations: the code is in kernels.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace allocmark {

// A kernel of one thread that runs for duration_ns.
[[nodiscard]] cudaError_t launch_spin_kernel(cudaStream_t stream, std::uint64_t duration_ns);

// A kernel of one thread that runs until *opened >= ticket, or for time_limit_ns. `opened` is
// mapped host memory as the device sees it.
struct GateKernel {
  const volatile std::uint64_t* opened = nullptr;
  std::uint64_t ticket = 0;
  std::uint64_t time_limit_ns = 0;
};
[[nodiscard]] cudaError_t launch_gate_kernel(cudaStream_t stream, const GateKernel& gate);

// A block that carries the pattern of harness/block_pattern.h from end to end.
struct PatternBlock {
  void* block = nullptr;
  std::uint64_t size_bytes = 0;
  std::uint64_t event_index = 0;
  std::uint64_t id = 0;
};
[[nodiscard]] cudaError_t launch_write_pattern_kernel(cudaStream_t stream,
                                                      const PatternBlock& block);

// The first word that any kernel has found changed, in mapped host memory.
struct PatternFault {
  unsigned long long claimed = 0;   // by the thread that fills in the rest
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
