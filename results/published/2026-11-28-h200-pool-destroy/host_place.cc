// Which pool serves the host after its own one was destroyed.
//
//     g++ -O1 host_place.cc -I$CUDA/include -L$CUDA/lib64 -lcudart -o host_place
//     ./host_place            # asks for the device's default pool first
//     ./host_place untouched  # does not
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorName(error));
  std::exit(1);
}

}  // namespace

int main(int count, char** /*arguments*/) {
  cudaMemLocation host{.type = cudaMemLocationTypeHost, .id = 0};
  cudaMemPool_t of_device = nullptr;
  cudaMemPool_t initial = nullptr;
  cudaMemPool_t own = nullptr;
  cudaMemPool_t current = nullptr;
  check(cudaFree(nullptr));
  if (count == 1) check(cudaDeviceGetDefaultMemPool(&of_device, 0));
  check(cudaMemGetDefaultMemPool(&initial, &host, cudaMemAllocationTypePinned));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = host;
  check(cudaMemPoolCreate(&own, &properties));
  check(cudaMemSetMemPool(&host, cudaMemAllocationTypePinned, own));
  check(cudaMemPoolDestroy(own));
  check(cudaMemGetMemPool(&current, &host, cudaMemAllocationTypePinned));
  void* block = nullptr;
  cudaPointerAttributes attributes{};
  check(cudaMallocFromPoolAsync(&block, 100, current, nullptr));
  check(cudaPointerGetAttributes(&attributes, block));
  std::printf("the host's pool is %s; its block is of the %s\n",
              current == initial     ? "the host's default one"
              : current == of_device ? "the device's default one"
                                     : "another one",
              attributes.type == cudaMemoryTypeDevice ? "device" : "host");
}
