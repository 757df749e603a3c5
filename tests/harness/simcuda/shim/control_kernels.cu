// Two kernels for the tests of launches: one gets a host model, the other never does.
#include <cuda_runtime_api.h>

namespace {

__global__ void add_to_all(int* values, int count, int summand) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) {
    values[i] += summand;
  }
}

__global__ void kernel_nobody_models(int* values) { values[0] = 1; }

}  // namespace

cudaError_t launch_add_to_all(int* values, int count, int summand, cudaStream_t stream) {
  add_to_all<<<static_cast<unsigned>((count + 127) / 128), 128, 0, stream>>>(values, count,
                                                                             summand);
  return cudaGetLastError();
}

cudaError_t launch_kernel_nobody_models(int* values) {
  kernel_nobody_models<<<1, 1>>>(values);
  return cudaGetLastError();
}

const void* add_to_all_function() { return reinterpret_cast<const void*>(&add_to_all); }
