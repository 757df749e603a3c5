// Pools of host memory, pinned and managed: who may use their blocks, what the pools count, errors.
// From NVIDIA's manual; at most 8 MiB.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"

using conformance::kMiB;

#if CUDART_VERSION >= 13000
namespace {

cudaMemPoolProps properties_of(cudaMemAllocationType type, cudaMemLocation location) {
  cudaMemPoolProps properties{};
  properties.allocType = type;
  properties.location = location;
  return properties;
}

constexpr cudaMemLocation kHostPlace{.type = cudaMemLocationTypeHost, .id = 0};

// A driver or a card may lack such pools.
cudaMemPool_t pool_of(cudaMemAllocationType type, cudaMemLocation location) {
  const cudaMemPoolProps properties = properties_of(type, location);
  cudaMemPool_t pool = nullptr;
  if (cudaMemPoolCreate(&pool, &properties) == cudaErrorNotSupported) (void)cudaGetLastError();
  return pool;
}

std::uint64_t value_of(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  std::uint64_t bytes = 0;
  CHECK(cudaMemPoolGetAttribute(pool, attribute, &bytes) == cudaSuccess);
  return bytes;
}

}  // namespace

TEST_CASE("a pool of host memory serves blocks that both sides use, and counts them") {
  const cudaMemLocation node{.type = cudaMemLocationTypeHostNuma, .id = 0};
  for (const cudaMemLocation& location : {kHostPlace, node}) {
    cudaMemPool_t pool = pool_of(cudaMemAllocationTypePinned, location);
    if (pool == nullptr) return;
    const std::uint64_t device_bytes = conformance::free_bytes();
    void* block = nullptr;
    void* device_memory = nullptr;
    REQUIRE(cudaMallocFromPoolAsync(&block, 3 * kMiB, pool, nullptr) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(value_of(pool, cudaMemPoolAttrUsedMemCurrent) >= 3 * kMiB);
    CHECK(value_of(pool, cudaMemPoolAttrReservedMemCurrent) >=
          value_of(pool, cudaMemPoolAttrUsedMemCurrent));
    CHECK(conformance::free_bytes() == device_bytes);
    cudaPointerAttributes attributes{};
    REQUIRE(cudaPointerGetAttributes(&attributes, block) == cudaSuccess);
    CHECK(attributes.type == cudaMemoryTypeHost);
    CHECK(cudaFreeHost(block) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    std::memset(block, 6, 3 * kMiB);
    REQUIRE(cudaMalloc(&device_memory, 3 * kMiB) == cudaSuccess);
    CHECK(cudaMemcpy(device_memory, block, 3 * kMiB, cudaMemcpyDefault) == cudaSuccess);
    std::memset(block, 0, 3 * kMiB);
    CHECK(cudaMemcpy(block, device_memory, 3 * kMiB, cudaMemcpyDefault) == cudaSuccess);
    CHECK(static_cast<char*>(block)[3 * kMiB - 1] == 6);
    CHECK(cudaFree(device_memory) == cudaSuccess);
    CHECK(cudaFreeAsync(block, nullptr) == cudaSuccess);
    CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
    CHECK(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
    CHECK(value_of(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    CHECK(value_of(pool, cudaMemPoolAttrUsedMemHigh) >= 3 * kMiB);
    CHECK(value_of(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  }
}

TEST_CASE("a block of a managed pool is managed memory") {
  cudaMemPool_t pool = pool_of(cudaMemAllocationTypeManaged, kHostPlace);
  if (pool == nullptr) return;
  void* block = nullptr;
  REQUIRE(cudaMallocFromPoolAsync(&block, kMiB, pool, nullptr) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  std::memset(block, 2, kMiB);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, block) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeManaged);
  CHECK(cudaFreeAsync(block, nullptr) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(value_of(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
}

// Attributes 0x9 to 0xE, which headers name from CUDA 13.2 on; an older driver refuses them.
TEST_CASE("a pool says what it was made as") {
  const auto number_of = [](cudaMemPool_t pool, int attribute, int unknown) {
    int number = unknown;
    if (cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(attribute), &number) !=
        cudaSuccess)
      (void)cudaGetLastError();
    return number;
  };
  cudaMemPool_t pool = pool_of(cudaMemAllocationTypePinned, kHostPlace);
  if (pool == nullptr) return;
  constexpr int kUnknown = -7;
  if (number_of(pool, 0x9, kUnknown) == kUnknown) {
    CHECK(dlsym(RTLD_DEFAULT, "simcu_present") == nullptr);
    return;
  }
  CHECK(number_of(pool, 0x9, kUnknown) == cudaMemAllocationTypePinned);
  CHECK(number_of(pool, 0xA, kUnknown) == cudaMemHandleTypeNone);
  CHECK(number_of(pool, 0xC, kUnknown) == cudaMemLocationTypeHost);
  CHECK(number_of(pool, 0xE, kUnknown) == 0);
  int number = 1;
  CHECK(cudaMemPoolSetAttribute(pool, static_cast<cudaMemPoolAttr>(0x9), &number) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  cudaMemPoolProps properties =
      properties_of(cudaMemAllocationTypePinned, {.type = cudaMemLocationTypeDevice, .id = 0});
  properties.maxSize = 64 * kMiB;
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  CHECK(number_of(pool, 0xB, kUnknown) == 0);
  CHECK(number_of(pool, 0xC, kUnknown) == cudaMemLocationTypeDevice);
  CHECK(value_of(pool, static_cast<cudaMemPoolAttr>(0xD)) >= 64 * kMiB);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("attributes of a pool of host memory are kept, and wrong ones are errors") {
  cudaMemPool_t pool = pool_of(cudaMemAllocationTypePinned, kHostPlace);
  if (pool == nullptr) return;
  std::uint64_t bytes = 5 * kMiB;
  int flag = 0;
  CHECK(value_of(pool, cudaMemPoolAttrReleaseThreshold) == 0);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes) == cudaSuccess);
  CHECK(value_of(pool, cudaMemPoolAttrReleaseThreshold) == 5 * kMiB);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &flag) == cudaSuccess);
  flag = 7;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &flag) == cudaSuccess);
  CHECK(flag == 0);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &bytes) == cudaErrorInvalidValue);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, nullptr) ==
        cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  const cudaMemPoolProps nowhere =
      properties_of(cudaMemAllocationTypePinned, {.type = cudaMemLocationTypeHostNuma, .id = 1000});
  cudaMemPool_t wrong = nullptr;
  CHECK(cudaMemPoolCreate(&wrong, &nowhere) != cudaSuccess);
  (void)cudaGetLastError();
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
}
#endif
