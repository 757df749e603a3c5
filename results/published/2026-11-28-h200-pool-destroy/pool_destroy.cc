// Destroys pools in several orders, and says whether the process lives. By the manual of
// cudaMemPoolDestroy a pool may be destroyed while blocks of it are in use: its resources go with
// the last one.
//
//     g++ -O1 pool_destroy.cc -I$CUDA/include -L$CUDA/lib64 -lcudart -o pool_destroy
//     ./pool_destroy ORDER ROUNDS
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

cudaMemPool_t new_pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties));
  return pool;
}

void* new_block(cudaMemPool_t pool, size_t size_bytes) {
  void* block = nullptr;
  check(cudaMallocFromPoolAsync(&block, size_bytes, pool, nullptr));
  return block;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string order = count > 1 ? arguments[1] : "";
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 1;
  check(cudaFree(nullptr));
  for (int i = 0; i < rounds; ++i) {
    const cudaMemPool_t pool = new_pool();
    void* const block = new_block(pool, 1000);
    if (order == "free-first") {
      check(cudaFreeAsync(block, nullptr));
      check(cudaStreamSynchronize(nullptr));
      check(cudaMemPoolDestroy(pool));
    } else if (order == "free-in-flight") {
      check(cudaFreeAsync(block, nullptr));
      check(cudaMemPoolDestroy(pool));
      check(cudaStreamSynchronize(nullptr));
    } else if (order == "destroy-first") {
      check(cudaMemPoolDestroy(pool));
      check(cudaFreeAsync(block, nullptr));
      check(cudaStreamSynchronize(nullptr));
    } else if (order == "destroy-first-cudaFree") {
      check(cudaMemPoolDestroy(pool));
      check(cudaFree(block));
    } else if (order == "destroy-first-no-sync") {
      check(cudaMemPoolDestroy(pool));
      check(cudaFreeAsync(block, nullptr));
    } else if (order == "never-freed") {
      check(cudaMemPoolDestroy(pool));
    } else {
      std::printf("no order '%s'\n", order.c_str());
      return 2;
    }
    // A pool that has nothing to do with the first one.
    const cudaMemPool_t other = new_pool();
    check(cudaFreeAsync(new_block(other, 1 << 20), nullptr));
    check(cudaMemPoolDestroy(other));
    check(cudaDeviceSynchronize());
  }
  std::printf("lives\n");
}
