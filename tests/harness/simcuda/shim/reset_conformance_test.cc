// What the end of a context takes along, and what it leaves: cudaDeviceReset, beside the driver's
// functions. An H200 was asked (MODEL.md).
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"
#include "tests/harness/simcuda/shim/driver_functions.h"

using conformance::current_context;
using conformance::kMiB;
using conformance::on_new_thread;

TEST_CASE("a reset ends the context and all that is in it") {
  DRIVER(cuMemFree);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  const CUcontext context = current_context();
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  const std::size_t before = conformance::free_bytes();
  void* pointer = nullptr;
  void* pinned = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaMalloc(&pointer, 64 * kMiB) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, kMiB) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  CHECK(conformance::free_bytes() < before);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(current_context() == context);
  CHECK(conformance::free_bytes() == before);
  CHECK(cudaFree(pointer) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pinned) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaMalloc(&pointer, kMiB) == cudaSuccess);
  CHECK(cudaMemset(pointer, 3, kMiB) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaSuccess);
  on_new_thread([&] {
    CHECK(cuMemFree_found(0) == CUDA_SUCCESS);
    CHECK(cuMemFree_found(9) == CUDA_ERROR_INVALID_VALUE);
  });
}

TEST_CASE("a reset leaves pools, their blocks and memory handles") {
  DRIVER(cuMemCreate);
  DRIVER(cuMemRelease);
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  const std::size_t before = conformance::free_bytes();
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  cudaStream_t stream = nullptr;
  void* pointer = nullptr;
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaMallocFromPoolAsync(&pointer, 64 * kMiB, pool, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemCreate_found(&handle, 64 * kMiB, &wanted, 0) == CUDA_SUCCESS);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(conformance::free_bytes() == before - 128 * kMiB);
  std::uint64_t used_bytes = 0;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used_bytes) == cudaSuccess);
  CHECK(used_bytes == 64 * kMiB);
  CHECK(cudaMemset(pointer, 1, kMiB) == cudaSuccess);
  CHECK(cuMemRelease_found(handle) == CUDA_SUCCESS);
  CHECK(cudaFree(pointer) == cudaSuccess);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  CHECK(conformance::free_bytes() == before);
}
