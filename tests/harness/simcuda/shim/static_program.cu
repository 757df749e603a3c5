// What nvcc makes by default: a program that carries the static CUDA runtime, with a kernel.
// simcuda_run_test.sh runs it. Out: "sum 10" where calls, contents, events and the launch work;
// with the argument "symbols", what a variable of the device holds and whether a table is given.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "harness/simcuda/simcu.h"

__device__ int table_of_program[4];

extern "C" cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t* id);

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

// The kernel does not run, but keeps the variable alive.
__global__ void use_table(int* out) { *out = table_of_program[threadIdx.x]; }

int show_symbols() {
  const int values[4] = {4, 5, 6, 7};
  int back = 0;
  size_t size_bytes = 0;
  void* address = nullptr;
  const int copied = cudaMemcpyToSymbol(table_of_program, values, sizeof values);
  const int read = cudaMemcpyFromSymbol(&back, table_of_program, sizeof back, 3 * sizeof back);
  const int beyond = cudaMemcpyFromSymbol(&back, table_of_program, sizeof back, sizeof values);
  (void)cudaGetSymbolSize(&size_bytes, table_of_program);
  (void)cudaGetSymbolAddress(&address, table_of_program);
  const int unknown = cudaGetSymbolAddress(&address, &back);
  std::printf("copied %d, read %d, value %d, beyond %d, size %zu, unknown %d\n", copied, read, back,
              beyond, size_bytes, unknown);
  const cudaUUID_t id{};
  const void* table = nullptr;
  const int asked = cudaGetExportTable(&table, &id);
  std::printf("asked %d, table %s\n", asked, table == nullptr ? "no" : "yes");
  size_t dynamic_bytes = 0;
  int clusters = 0;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t launch{};
  launch.gridDim = launch.blockDim = {1024, 1, 1};
  launch.attrs = &cluster;
  launch.numAttrs = 1;
  const int available =
      cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic_bytes, use_table, 2, 1024);
  const int counted = cudaOccupancyMaxActiveClusters(&clusters, use_table, &launch);
  std::printf("available %d, bytes %zu, counted %d, clusters %d\n", available, dynamic_bytes,
              counted, clusters);
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const auto model = reinterpret_cast<decltype(&simcu_register_kernel)>(
      dlsym(RTLD_DEFAULT, "simcu_register_kernel"));
  if (model != nullptr) {
    model("add_one", &add_one_model, nullptr);
  }
  if (argument_count > 1 && std::strcmp(arguments[1], "symbols") == 0) return show_symbols();
  if (argument_count > 1) {  // a call that simcuda lacks
    (void)cudaDestroyTextureObject(0);
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
