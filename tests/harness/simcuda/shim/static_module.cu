// A library that carries the static CUDA runtime and is stripped, as cuDNN's are. gaps_program.cu
// opens it by name. Out: what its calls return.
#include <cuda_runtime_api.h>

__global__ void kernel_of_module(int* value) { *value = 1; }

// 0, or the error of cudaMalloc or of the launch.
extern "C" int answer_of_module() {
  int* value = nullptr;
  if (const cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&value), sizeof *value)) {
    return static_cast<int>(error);
  }
  kernel_of_module<<<1, 1>>>(value);
  return static_cast<int>(cudaGetLastError());
}
