// Turns a failed CUDA runtime call into an EnvironmentError that says which call, where and why.
// The runtime's own "last error" is cleared on the way, so that one failure is never reported
// twice.
#pragma once

#include <cuda_runtime_api.h>

namespace allocmark {

// Where a call stands in our sources.
struct CudaCall {
  const char* expression;
  const char* file;
  int line;
};

[[noreturn]] void throw_cuda_error(cudaError_t error, const CudaCall& call);

inline void check_cuda(cudaError_t error, const CudaCall& call) {
  if (error != cudaSuccess) [[unlikely]] {
    throw_cuda_error(error, call);
  }
}

// True for the one failure that is an expected outcome; the runtime's last error is then cleared,
// because a caller that treats it as a value must not leave it behind for the next kernel launch to
// find.
[[nodiscard]] inline bool is_out_of_memory(cudaError_t error) {
  if (error != cudaErrorMemoryAllocation) [[likely]] {
    return false;
  }
  (void)cudaGetLastError();
  return true;
}

}  // namespace allocmark

#define ALLOCMARK_CUDA_CHECK(...) \
  ::allocmark::check_cuda((__VA_ARGS__), ::allocmark::CudaCall{#__VA_ARGS__, __FILE__, __LINE__})
