// Work for streams on a GPU: a kernel of a given duration, and one that waits for the host. Neither
// touches the memory of an allocation.
#include "harness/kernels.h"

namespace allocmark {

namespace {

__device__ std::uint64_t device_ns() {
  std::uint64_t now_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

__global__ void spin(std::uint64_t duration_ns) {
  const std::uint64_t begin_ns = device_ns();
  while (device_ns() - begin_ns < duration_ns) {
  }
}

__global__ void wait_for_gate(const volatile std::uint64_t* opened, std::uint64_t ticket,
                              std::uint64_t time_limit_ns) {
  const std::uint64_t begin_ns = device_ns();
  while (*opened < ticket && device_ns() - begin_ns < time_limit_ns) {
  }
}

}  // namespace

cudaError_t launch_spin_kernel(cudaStream_t stream, std::uint64_t duration_ns) {
  spin<<<1, 1, 0, stream>>>(duration_ns);
  return cudaGetLastError();
}

cudaError_t launch_gate_kernel(cudaStream_t stream, const GateKernel& gate) {
  wait_for_gate<<<1, 1, 0, stream>>>(gate.opened, gate.ticket, gate.time_limit_ns);
  return cudaGetLastError();
}

}  // namespace allocmark
