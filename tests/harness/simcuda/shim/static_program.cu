// What nvcc makes by default: a program that carries the static CUDA runtime, with a kernel.
// simcuda_run_test.sh runs it. Out: "sum 10" where calls, contents, events and the launch work.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>

#include "harness/simcuda/simcu.h"

__global__ void add_one(int* values) { values[threadIdx.x] += 1; }

namespace {

uint64_t add_one_model(void** arguments, void*) {
  const auto view = reinterpret_cast<decltype(&simcu_view)>(dlsym(RTLD_DEFAULT, "simcu_view"));
  auto* const values = static_cast<int*>(view(*static_cast<int**>(arguments[0]), 4 * sizeof(int)));
  for (int i = 0; values != nullptr && i < 4; ++i) {
    ++values[i];
  }
  return 1000;
}

bool ok(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
  }
  return error == cudaSuccess;
}

}  // namespace

int main(int argument_count, char**) {
  const auto model = reinterpret_cast<decltype(&simcu_register_kernel)>(
      dlsym(RTLD_DEFAULT, "simcu_register_kernel"));
  if (model != nullptr) {
    model("add_one", &add_one_model, nullptr);
  }
  if (argument_count > 1) {  // a call that simcuda lacks
    (void)cudaUserObjectRelease(nullptr, 1);
    (void)cudaGetLastError();
  }
  int values[4] = {0, 1, 2, 3};
  int* block = nullptr;
  cudaStream_t stream = nullptr;
  if (!ok(cudaStreamCreate(&stream), "cudaStreamCreate") ||
      !ok(cudaMallocAsync(&block, sizeof values, stream), "cudaMallocAsync") ||
      !ok(cudaMemcpyAsync(block, values, sizeof values, cudaMemcpyHostToDevice, stream), "copy")) {
    return 1;
  }
  add_one<<<1, 4, 0, stream>>>(block);
  if (!ok(cudaGetLastError(), "launch") ||
      !ok(cudaMemcpyAsync(values, block, sizeof values, cudaMemcpyDeviceToHost, stream), "copy") ||
      !ok(cudaFreeAsync(block, stream), "cudaFreeAsync") ||
      !ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize")) {
    return 1;
  }
  std::printf("sum %d\n", values[0] + values[1] + values[2] + values[3]);
  return 0;
}
