// Managed memory: what a pointer says of itself, who may use it, what is advised about it, and
// errors. From NVIDIA's manual; no kernel runs. At most 8 MiB.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"
#include "tests/harness/simcuda/shim/driver_functions.h"

using conformance::kMiB;

namespace {

// A device that does not let the host in while it works has no place in these tests.
bool has_managed_memory() {
  int concurrent = 0;
  return cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0) ==
             cudaSuccess &&
         concurrent == 1;
}

// Freed at its end.
class Managed {
 public:
  explicit Managed(std::size_t size_bytes) {
    REQUIRE(cudaMallocManaged(&pointer_, size_bytes, cudaMemAttachGlobal) == cudaSuccess);
    REQUIRE(pointer_ != nullptr);
  }
  ~Managed() { CHECK(cudaFree(pointer_) == cudaSuccess); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  [[nodiscard]] char* at(std::size_t offset) const { return static_cast<char*>(pointer_) + offset; }

 private:
  void* pointer_ = nullptr;
};

int attribute(cudaMemRangeAttribute wanted, const void* pointer, std::size_t size_bytes) {
  int value = -77;
  CHECK(cudaMemRangeGetAttribute(&value, sizeof value, wanted, pointer, size_bytes) == cudaSuccess);
  return value;
}

cudaError_t advise(const Managed& memory, cudaMemoryAdvise advice, cudaMemLocation location) {
  return cudaMemAdvise(memory.at(0), kMiB, advice, location);
}

constexpr cudaMemLocation kDevice{.type = cudaMemLocationTypeDevice, .id = 0};
constexpr cudaMemLocation kHost{.type = cudaMemLocationTypeHost, .id = 0};

}  // namespace

TEST_CASE("the host and the device use managed memory by one pointer") {
  if (!has_managed_memory()) return;
  const Managed memory(4 * kMiB);
  std::memset(memory.at(0), 7, 4 * kMiB);
  void* device_memory = nullptr;
  REQUIRE(cudaMalloc(&device_memory, 4 * kMiB) == cudaSuccess);
  for (const cudaMemcpyKind kind :
       {cudaMemcpyDefault, cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice}) {
    CHECK(cudaMemcpy(device_memory, memory.at(0), 4 * kMiB, kind) == cudaSuccess);
  }
  std::memset(memory.at(0), 1, 4 * kMiB);
  CHECK(cudaMemcpy(memory.at(0), device_memory, 2 * kMiB, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(cudaMemcpy(memory.at(0), device_memory, kMiB, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(memory.at(0), memory.at(kMiB), kMiB, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(cudaMemsetAsync(memory.at(3 * kMiB), 9, kMiB, nullptr) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(*memory.at(2 * kMiB - 1) == 7);
  CHECK(*memory.at(2 * kMiB) == 1);
  CHECK(*memory.at(3 * kMiB) == 9);
  CHECK(cudaFree(device_memory) == cudaSuccess);
}

TEST_CASE("a managed pointer says that it is managed") {
  if (!has_managed_memory()) return;
  DRIVER(cuPointerGetAttribute);
  const Managed memory(2 * kMiB);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, memory.at(kMiB)) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeManaged);
  CHECK(attributes.device == 0);
  CHECK(attributes.hostPointer == memory.at(kMiB));
  CHECK(attributes.devicePointer == memory.at(kMiB));
  const auto address = reinterpret_cast<CUdeviceptr>(memory.at(kMiB));
  unsigned managed = 0;
  CHECK(cuPointerGetAttribute_found(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
        CUDA_SUCCESS);
  CHECK(managed != 0);
  std::size_t size_bytes = 0;
  CHECK(cuPointerGetAttribute_found(&size_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) ==
        CUDA_SUCCESS);
  CHECK(size_bytes >= 2 * kMiB);
}

TEST_CASE("managed memory is freed as the device's is, once") {
  if (!has_managed_memory()) return;
  void* pointer = nullptr;
  REQUIRE(cudaMallocManaged(&pointer, kMiB, cudaMemAttachGlobal) == cudaSuccess);
  CHECK(cudaFreeHost(pointer) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaFree(pointer) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("wrong requests for managed memory are errors that change nothing") {
  if (!has_managed_memory()) return;
  DRIVER(cuMemAllocManaged);
  void* pointer = nullptr;
  CHECK(cudaMallocManaged(nullptr, kMiB, cudaMemAttachGlobal) == cudaErrorInvalidValue);
  CHECK(cudaMallocManaged(&pointer, kMiB, 0) == cudaErrorInvalidValue);
  CHECK(cudaMallocManaged(&pointer, kMiB, 64) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  CHECK(cuMemAllocManaged_found(&address, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocManaged_found(&address, kMiB, 0) == CUDA_ERROR_INVALID_VALUE);
  // The runtime does not ask the driver for nothing.
  for (const unsigned flags : {unsigned{cudaMemAttachGlobal}, 64U}) {
    pointer = &address;
    CHECK(cudaMallocManaged(&pointer, 0, flags) == cudaSuccess);
    CHECK(pointer == nullptr);
  }
  CHECK(cudaMallocManaged(static_cast<void**>(nullptr), 0, cudaMemAttachGlobal) ==
        cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("advice is remembered for its pages, and undone") {
  if (!has_managed_memory()) return;
  const Managed memory(4 * kMiB);
  CHECK(attribute(cudaMemRangeAttributeReadMostly, memory.at(0), 4 * kMiB) == 0);
  CHECK(attribute(cudaMemRangeAttributePreferredLocation, memory.at(0), 4 * kMiB) ==
        cudaInvalidDeviceId);
  CHECK(advise(memory, cudaMemAdviseSetReadMostly, kDevice) == cudaSuccess);
  CHECK(attribute(cudaMemRangeAttributeReadMostly, memory.at(0), kMiB) == 1);
  CHECK(attribute(cudaMemRangeAttributeReadMostly, memory.at(0), 2 * kMiB) == 0);
  CHECK(attribute(cudaMemRangeAttributeReadMostly, memory.at(kMiB), kMiB) == 0);
  CHECK(advise(memory, cudaMemAdviseUnsetReadMostly, kDevice) == cudaSuccess);
  CHECK(attribute(cudaMemRangeAttributeReadMostly, memory.at(0), kMiB) == 0);

  CHECK(advise(memory, cudaMemAdviseSetPreferredLocation, kHost) == cudaSuccess);
  CHECK(attribute(cudaMemRangeAttributePreferredLocation, memory.at(0), kMiB) == cudaCpuDeviceId);
  CHECK(advise(memory, cudaMemAdviseSetPreferredLocation, kDevice) == cudaSuccess);
  CHECK(attribute(cudaMemRangeAttributePreferredLocation, memory.at(0), kMiB) == 0);
  CHECK(attribute(cudaMemRangeAttributePreferredLocationType, memory.at(0), kMiB) ==
        cudaMemLocationTypeDevice);
  CHECK(attribute(cudaMemRangeAttributePreferredLocationId, memory.at(0), kMiB) == 0);
  CHECK(attribute(cudaMemRangeAttributePreferredLocation, memory.at(0), 2 * kMiB) ==
        cudaInvalidDeviceId);
  CHECK(attribute(cudaMemRangeAttributePreferredLocationType, memory.at(0), 2 * kMiB) ==
        cudaMemLocationTypeInvalid);
  CHECK(advise(memory, cudaMemAdviseUnsetPreferredLocation, kDevice) == cudaSuccess);
  CHECK(attribute(cudaMemRangeAttributePreferredLocation, memory.at(0), kMiB) ==
        cudaInvalidDeviceId);

  CHECK(advise(memory, cudaMemAdviseSetAccessedBy, kDevice) == cudaSuccess);
  std::array<int, 3> readers{};
  CHECK(cudaMemRangeGetAttribute(readers.data(), sizeof readers, cudaMemRangeAttributeAccessedBy,
                                 memory.at(0), kMiB) == cudaSuccess);
  CHECK(readers == std::array{0, cudaInvalidDeviceId, cudaInvalidDeviceId});
  CHECK(advise(memory, cudaMemAdviseUnsetAccessedBy, kDevice) == cudaSuccess);
  CHECK(cudaMemRangeGetAttribute(readers.data(), sizeof readers, cudaMemRangeAttributeAccessedBy,
                                 memory.at(0), kMiB) == cudaSuccess);
  CHECK(readers[0] == cudaInvalidDeviceId);
}

TEST_CASE("a prefetch is remembered for its pages") {
  if (!has_managed_memory()) return;
  const Managed memory(4 * kMiB);
  CHECK(attribute(cudaMemRangeAttributeLastPrefetchLocation, memory.at(0), kMiB) ==
        cudaInvalidDeviceId);
  CHECK(cudaMemPrefetchAsync(memory.at(0), 2 * kMiB, kDevice, 0, nullptr) == cudaSuccess);
  CHECK(cudaMemPrefetchAsync(memory.at(kMiB), kMiB, kHost, 0, nullptr) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(attribute(cudaMemRangeAttributeLastPrefetchLocation, memory.at(0), kMiB) == 0);
  CHECK(attribute(cudaMemRangeAttributeLastPrefetchLocation, memory.at(kMiB), kMiB) ==
        cudaCpuDeviceId);
  CHECK(attribute(cudaMemRangeAttributeLastPrefetchLocation, memory.at(0), 2 * kMiB) ==
        cudaInvalidDeviceId);
  CHECK(attribute(cudaMemRangeAttributeLastPrefetchLocationType, memory.at(kMiB), kMiB) ==
        cudaMemLocationTypeHost);
  std::vector<int> values(2, -77);
  std::array<void*, 2> data = {&values[0], &values[1]};
  std::array<std::size_t, 2> sizes = {sizeof(int), sizeof(int)};
  std::array attributes = {cudaMemRangeAttributeReadMostly,
                           cudaMemRangeAttributeLastPrefetchLocation};
  CHECK(cudaMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), 2, memory.at(0),
                                  kMiB) == cudaSuccess);
  CHECK(values == std::vector{0, 0});
}

TEST_CASE("advice and prefetches of other memory or to no place are errors") {
  if (!has_managed_memory()) return;
  const Managed memory(kMiB);
  void* device_memory = nullptr;
  REQUIRE(cudaMalloc(&device_memory, kMiB) == cudaSuccess);
  const cudaMemLocation nowhere{.type = cudaMemLocationTypeInvalid, .id = 0};
  const cudaMemLocation far{.type = cudaMemLocationTypeDevice, .id = 99};
  int value = 0;
  const auto get = [&](void* data, std::size_t size_bytes, const void* pointer) {
    return cudaMemRangeGetAttribute(data, size_bytes, cudaMemRangeAttributeReadMostly, pointer,
                                    kMiB);
  };
  CHECK(cudaMemPrefetchAsync(device_memory, kMiB, kDevice, 0, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMemPrefetchAsync(memory.at(0), 0, kDevice, 0, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMemPrefetchAsync(memory.at(0), kMiB, kDevice, 1, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMemPrefetchAsync(memory.at(0), kMiB, far, 0, nullptr) == cudaErrorInvalidDevice);
  CHECK(cudaMemPrefetchAsync(memory.at(0), kMiB, nowhere, 0, nullptr) != cudaSuccess);
  CHECK(cudaMemAdvise(device_memory, kMiB, cudaMemAdviseSetReadMostly, kDevice) ==
        cudaErrorInvalidValue);
  for (const cudaMemoryAdvise advice : {cudaMemAdviseSetPreferredLocation,
                                        cudaMemAdviseSetAccessedBy, cudaMemAdviseUnsetAccessedBy}) {
    CHECK(cudaMemAdvise(memory.at(0), kMiB, advice, far) == cudaErrorInvalidValue);
  }
  // These look at no place.
  CHECK(cudaMemAdvise(memory.at(0), kMiB, cudaMemAdviseSetReadMostly, far) == cudaSuccess);
  CHECK(cudaMemAdvise(memory.at(0), kMiB, cudaMemAdviseUnsetReadMostly, far) == cudaSuccess);
  CHECK(get(&value, 8, memory.at(0)) == cudaErrorInvalidValue);
  CHECK(get(nullptr, 4, memory.at(0)) == cudaErrorInvalidValue);
  CHECK(get(&value, 4, device_memory) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() != cudaSuccess);
  CHECK(cudaFree(device_memory) == cudaSuccess);
}
