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

// The host has access from the start, a device only where it is given.
void open_to_device(cudaMemPool_t pool) {
  const cudaMemAccessDesc access{.location = {.type = cudaMemLocationTypeDevice, .id = 0},
                                 .flags = cudaMemAccessFlagsProtReadWrite};
  REQUIRE(cudaMemPoolSetAccess(pool, &access, 1) == cudaSuccess);
}

cudaMemAccessFlags access_of(cudaMemPool_t pool, cudaMemLocation location) {
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtRead;
  CHECK(cudaMemPoolGetAccess(&flags, pool, &location) == cudaSuccess);
  return flags;
}

void* block_of(cudaMemPool_t pool, std::uint64_t size_bytes, cudaStream_t stream) {
  void* block = nullptr;
  REQUIRE(cudaMallocFromPoolAsync(&block, size_bytes, pool, stream) == cudaSuccess);
  return block;
}

cudaError_t error_of_pool(const cudaMemPoolProps& properties) {
  cudaMemPool_t pool = nullptr;
  const cudaError_t error = cudaMemPoolCreate(&pool, &properties);
  if (error == cudaSuccess) (void)cudaMemPoolDestroy(pool);
  (void)cudaGetLastError();
  return error;
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
    open_to_device(pool);
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

// Attributes 0x9 to 0xE, which headers name from CUDA 13.2 on, and 0xF, from 13.4 on; an older
// driver refuses them.
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
  const auto is_of_no_domain = [&](cudaMemPool_t one) {
    const int domain = number_of(one, 0xF, kUnknown);
    return domain == -1 || (domain == kUnknown && dlsym(RTLD_DEFAULT, "simcu_present") == nullptr);
  };
  CHECK(is_of_no_domain(pool));
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
  CHECK(is_of_no_domain(pool));
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

TEST_CASE("a pool of host memory is the host's until a device is given access") {
  cudaMemPool_t pool = pool_of(cudaMemAllocationTypePinned, kHostPlace);
  if (pool == nullptr) return;
  const cudaMemLocation device{.type = cudaMemLocationTypeDevice, .id = 0};
  CHECK(access_of(pool, device) == cudaMemAccessFlagsProtNone);
  CHECK(access_of(pool, kHostPlace) == cudaMemAccessFlagsProtReadWrite);
  open_to_device(pool);
  CHECK(access_of(pool, device) == cudaMemAccessFlagsProtReadWrite);
  CHECK(cudaDeviceSetMemPool(0, pool) == cudaErrorInvalidValue);  // not the device's
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
}

TEST_CASE("a pool of host memory keeps what its threshold lets it, and gives the rest back") {
  cudaMemPool_t pool = pool_of(cudaMemAllocationTypePinned, kHostPlace);
  if (pool == nullptr) return;
  std::uint64_t threshold_bytes = 0;
  for (const bool keeps : {false, true}) {
    threshold_bytes = keeps ? ~std::uint64_t{0} : 0;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold_bytes) ==
          cudaSuccess);
    REQUIRE(cudaFreeAsync(block_of(pool, 3 * kMiB, nullptr), nullptr) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(value_of(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    CHECK((value_of(pool, cudaMemPoolAttrReservedMemCurrent) >= 3 * kMiB) == keeps);
  }
  CHECK(cudaMemPoolTrimTo(pool, 0) == cudaSuccess);
  CHECK(value_of(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
}

TEST_CASE("a block of host memory that a stream frees is another stream's only after it") {
  cudaMemPool_t pool = pool_of(cudaMemAllocationTypePinned, kHostPlace);
  if (pool == nullptr) return;
  int no = 0;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no) ==
        cudaSuccess);
  const conformance::BusyWork work;
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  for (cudaStream_t* stream : {&first, &second})
    REQUIRE(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking) == cudaSuccess);
  void* const block = block_of(pool, 3 * kMiB, first);
  work.start(first);
  REQUIRE(cudaFreeAsync(block, first) == cudaSuccess);
  void* const other = block_of(pool, 3 * kMiB, second);
  CHECK(other != block);
  void* const same = block_of(pool, 3 * kMiB, first);
  CHECK(same == block);
  REQUIRE(cudaFreeAsync(same, first) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(first) == cudaSuccess);
  REQUIRE(cudaFreeAsync(other, second) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  for (cudaStream_t stream : {first, second}) CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
}

// As an H200 answers (driver 580.159.04).
TEST_CASE("places and handles that a pool cannot have are invalid, not unsupported") {
  const auto pinned = [](cudaMemLocationType type, int id) {
    return properties_of(cudaMemAllocationTypePinned, {.type = type, .id = id});
  };
  cudaMemPool_t pool = pool_of(cudaMemAllocationTypePinned, kHostPlace);
  if (pool == nullptr) return;
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  CHECK(error_of_pool(pinned(cudaMemLocationTypeHostNumaCurrent, 0)) == cudaErrorInvalidValue);
  CHECK(error_of_pool(pinned(cudaMemLocationTypeInvalid, 0)) == cudaErrorInvalidValue);
  cudaMemPoolProps shared = pinned(cudaMemLocationTypeHost, 0);
  shared.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  CHECK(error_of_pool(shared) == cudaErrorInvalidValue);
  // A node's pool can have handles, where the system has them.
  shared.location.type = cudaMemLocationTypeHostNuma;
  CHECK(error_of_pool(shared) != cudaErrorInvalidValue);
  cudaMemPoolProps managed = properties_of(cudaMemAllocationTypeManaged, kHostPlace);
  if (error_of_pool(managed) != cudaSuccess) return;
  managed.maxSize = 64 * kMiB;
  CHECK(error_of_pool(managed) == cudaErrorInvalidValue);
  managed = properties_of(cudaMemAllocationTypeManaged,
                          {.type = cudaMemLocationTypeHostNumaCurrent, .id = 5});
  CHECK(error_of_pool(managed) == cudaSuccess);  // the id is ignored
}

// Location type 6 is CUDA 13.4's; no driver of 13.0 knows it.
TEST_CASE("the only domain of a device is the device, and it has no other") {
  if (dlsym(RTLD_DEFAULT, "simcu_present") == nullptr) return;
  constexpr auto kDomain = static_cast<cudaMemLocationType>(6);
  cudaMemPoolProps properties =
      properties_of(cudaMemAllocationTypePinned, {.type = kDomain, .id = 0});
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  int type = 0;
  CHECK(cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(0xC), &type) == cudaSuccess);
  CHECK(type == cudaMemLocationTypeDevice);
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  properties.location.id = 1 << 8;
  CHECK(error_of_pool(properties) == cudaErrorInvalidValue);
  properties = properties_of(cudaMemAllocationTypeManaged, {.type = kDomain, .id = 0});
  CHECK(error_of_pool(properties) == cudaErrorInvalidValue);
  cudaMemLocation domain{.type = kDomain, .id = 0};
  cudaMemPool_t of_device = nullptr;
  CHECK(cudaMemGetDefaultMemPool(&pool, &domain, cudaMemAllocationTypePinned) == cudaSuccess);
  CHECK(cudaDeviceGetDefaultMemPool(&of_device, 0) == cudaSuccess);
  CHECK(pool == of_device);
}

TEST_CASE("a place of the host has a pool, another one where it is set, and the first one again") {
  cudaMemLocation host = kHostPlace;
  cudaMemPool_t initial = nullptr;
  if (cudaMemGetDefaultMemPool(&initial, &host, cudaMemAllocationTypePinned) != cudaSuccess) {
    (void)cudaGetLastError();
    return;
  }
  const auto current = [&] {
    cudaMemPool_t pool = nullptr;
    CHECK(cudaMemGetMemPool(&pool, &host, cudaMemAllocationTypePinned) == cudaSuccess);
    return pool;
  };
  CHECK(current() == initial);
  for (const auto kind : {cudaMemAllocationTypePinned, cudaMemAllocationTypeManaged}) {
    cudaMemPool_t none = nullptr;
    cudaMemLocation nearest{.type = cudaMemLocationTypeHostNumaCurrent, .id = 0};
    CHECK(cudaMemGetDefaultMemPool(&none, &nearest, kind) == cudaErrorNotSupported);
    CHECK(cudaMemGetMemPool(&none, &nearest, kind) == cudaErrorNotSupported);
    cudaMemLocation missing{.type = cudaMemLocationTypeDevice, .id = 99};
    CHECK(cudaMemGetDefaultMemPool(&none, &missing, kind) == cudaErrorInvalidValue);
  }
  cudaMemPool_t own = pool_of(cudaMemAllocationTypePinned, kHostPlace);
  CHECK(cudaMemSetMemPool(&host, cudaMemAllocationTypePinned, own) == cudaSuccess);
  CHECK(current() == own);
  cudaMemLocation device{.type = cudaMemLocationTypeDevice, .id = 0};
  CHECK(cudaMemSetMemPool(&device, cudaMemAllocationTypePinned, own) == cudaErrorInvalidValue);
  CHECK(cudaMemSetMemPool(&host, cudaMemAllocationTypePinned, initial) == cudaSuccess);
  CHECK(current() == initial);
  CHECK(cudaMemPoolDestroy(own) == cudaSuccess);
  CHECK(current() == initial);
  CHECK(cudaMemPoolDestroy(initial) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}
#endif
