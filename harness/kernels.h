// The two kernels that stand for a program's work on a GPU. Plain declarations: the code is in
// kernels.cu.
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

}  // namespace allocmark
