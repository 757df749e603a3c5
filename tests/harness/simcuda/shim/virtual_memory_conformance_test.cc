// The driver's virtual memory management, found as allocators find it
// (cudaGetDriverEntryPointByVersion), with the answers of an H200 (driver 580.159, CUDA 13.0).
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/conformance.h"

namespace {

using conformance::free_bytes;
using conformance::kMiB;

template <class Function>
Function entry_point(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  REQUIRE(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result) ==
          cudaSuccess);
  REQUIRE(result == cudaDriverEntryPointSuccess);
  return reinterpret_cast<Function>(function);
}
#define ENTRY_POINT(name) const auto name##_found = entry_point<decltype(&name)>(#name)

CUmemAllocationProp device_memory() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

CUmemAccessDesc read_write() {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

constexpr std::uint64_t kPage = 2 * kMiB;

}  // namespace

TEST_CASE("driver functions are found by name and version") {
  void* function = &function;
  cudaDriverEntryPointQueryResult result{};
  CHECK(cudaGetDriverEntryPointByVersion("cuNope", &function, 12000, 0, &result) == cudaSuccess);
  CHECK(result == cudaDriverEntryPointSymbolNotFound);
  CHECK(function == nullptr);
  CHECK(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 5000, 0, &result) ==
        cudaSuccess);
  CHECK(result == cudaDriverEntryPointVersionNotSufficent);
  CHECK(function == nullptr);
}

TEST_CASE("memory handles come in whole pages and from the device's memory") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  ENTRY_POINT(cuMemCreate);
  ENTRY_POINT(cuMemRelease);
  ENTRY_POINT(cuMemGetAllocationGranularity);
  CUmemAllocationProp properties = device_memory();
  std::size_t granularity_bytes = 0;
  CHECK(cuMemGetAllocationGranularity_found(&granularity_bytes, &properties,
                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  CHECK(granularity_bytes == kPage);
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cuMemCreate_found(&handle, kPage + 1, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemCreate_found(&handle, 0, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemCreate_found(&handle, std::uint64_t{1} << 40, &properties, 0) ==
        CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemCreate_found(&handle, kPage, &properties, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  properties.location.id = 99;
  CHECK(cuMemCreate_found(&handle, kPage, &properties, 0) == CUDA_ERROR_INVALID_DEVICE);
  properties.location.id = 0;
  const std::uint64_t before = free_bytes();
  REQUIRE(cuMemCreate_found(&handle, 10 * kPage, &properties, 0) == CUDA_SUCCESS);
  CHECK(before - free_bytes() == 10 * kPage);
  CHECK(cuMemRelease_found(handle) == CUDA_SUCCESS);
  CHECK(before == free_bytes());
}

TEST_CASE("mappings alias, and are checked as the driver checks them") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  ENTRY_POINT(cuMemCreate);
  ENTRY_POINT(cuMemRelease);
  ENTRY_POINT(cuMemAddressReserve);
  ENTRY_POINT(cuMemAddressFree);
  ENTRY_POINT(cuMemMap);
  ENTRY_POINT(cuMemUnmap);
  ENTRY_POINT(cuMemSetAccess);
  ENTRY_POINT(cuMemRetainAllocationHandle);
  const CUmemAllocationProp properties = device_memory();
  const CUmemAccessDesc access = read_write();
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle again = 0;
  CUdeviceptr a = 0;
  CUdeviceptr b = 0;
  REQUIRE(cuMemCreate_found(&handle, 2 * kPage, &properties, 0) == CUDA_SUCCESS);
  CHECK(cuMemAddressReserve_found(&a, 100, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressReserve_found(&a, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemAddressReserve_found(&a, 20 * kPage, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressReserve_found(&b, 20 * kPage, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(b - a == 64 * kMiB);

  CHECK(cuMemMap_found(a, kPage, 0, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(cuMemMap_found(a, 2 * kPage, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap_found(a, 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap_found(a + 4 * kPage, 2 * kPage, kPage, handle, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemMap_found(a + 6 * kPage + 512, 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemMap_found(b, 2 * kPage, 0, handle, 0) == CUDA_SUCCESS);

  CHECK(cuMemSetAccess_found(a, kPage, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess_found(a, 3 * kPage, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemSetAccess_found(a, 2 * kPage, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemSetAccess_found(b, 2 * kPage, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cudaMemset(reinterpret_cast<void*>(a), 5, 2 * kPage) == cudaSuccess);
  char byte = 0;
  REQUIRE(cudaMemcpy(&byte, reinterpret_cast<void*>(b + kPage), 1, cudaMemcpyDefault) ==
          cudaSuccess);
  CHECK(byte == 5);
  REQUIRE(cudaMemset(reinterpret_cast<void*>(b + 512), 0, 2 * kPage - 512) == cudaSuccess);
  REQUIRE(cudaMemcpy(&byte, reinterpret_cast<void*>(a + kPage), 1, cudaMemcpyDefault) ==
          cudaSuccess);
  CHECK(byte == 0);
  REQUIRE(cudaMemcpy(&byte, reinterpret_cast<void*>(a + 511), 1, cudaMemcpyDefault) == cudaSuccess);
  CHECK(byte == 5);

  REQUIRE_ANSWER(cudaFree(reinterpret_cast<void*>(a)), "cudaErrorInvalidValue");
  const std::uint64_t before = free_bytes();
  CHECK(cuMemRelease_found(handle) == CUDA_SUCCESS);
  CHECK(free_bytes() == before);
  CHECK(cuMemRetainAllocationHandle_found(&again, reinterpret_cast<void*>(a)) == CUDA_SUCCESS);
  CHECK(again == handle);
  CHECK(cuMemRelease_found(again) == CUDA_SUCCESS);
  CHECK(cuMemUnmap_found(a, kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap_found(a, 3 * kPage) == CUDA_SUCCESS);
  CHECK(cuMemUnmap_found(a, 2 * kPage) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree_found(a, kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAddressFree_found(b, 20 * kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(free_bytes() == before);
  CHECK(cuMemUnmap_found(b, 2 * kPage) == CUDA_SUCCESS);
  CHECK(free_bytes() == before + 2 * kPage);
  CHECK(cuMemAddressFree_found(a, 20 * kPage) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree_found(b, 20 * kPage) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree_found(b, 20 * kPage) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a mapping may reach over the end of its reservation, and must begin in it") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  ENTRY_POINT(cuMemCreate);
  ENTRY_POINT(cuMemRelease);
  ENTRY_POINT(cuMemAddressReserve);
  ENTRY_POINT(cuMemAddressFree);
  ENTRY_POINT(cuMemMap);
  ENTRY_POINT(cuMemUnmap);
  const CUmemAllocationProp properties = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  REQUIRE(cuMemCreate_found(&handle, 2 * kPage, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressReserve_found(&address, 20 * kPage, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cuMemMap_found(address + 19 * kPage, 2 * kPage, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(cuMemUnmap_found(address + 19 * kPage, 2 * kPage) == CUDA_SUCCESS);
  CHECK(cuMemMap_found(address + 30 * kPage, 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap_found(address + 30 * kPage, 2 * kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap_found(address + 32 * kPage, 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRelease_found(handle) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree_found(address, 20 * kPage) == CUDA_SUCCESS);
}

TEST_CASE("the driver fills words of device memory") {
  ENTRY_POINT(cuMemsetD32Async);
  ENTRY_POINT(cuStreamWriteValue32);
  unsigned* block = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&block), 4096) == cudaSuccess);
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(block);
  CHECK(cuMemsetD32Async_found(address, 0x01020304, 3, nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamWriteValue32_found(nullptr, address + 4, 7, 0) == CUDA_SUCCESS);
  CHECK(cuMemsetD32Async_found(address + 2, 1, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
  unsigned words[3] = {};
  REQUIRE(cudaMemcpy(words, block, sizeof words, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(words[0] == 0x01020304);
  CHECK(words[1] == 7);
  CHECK(words[2] == 0x01020304);
  REQUIRE(cudaFree(block) == cudaSuccess);
}

TEST_CASE("every driver function that PyTorch's allocator library requires is found") {
  for (const char* name : {"cuDeviceGet", "cuDeviceGetAttribute", "cuMemAddressReserve",
                           "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemMap",
                           "cuMemUnmap", "cuMemSetAccess", "cuMemGetAllocationGranularity",
                           "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
                           "cuMemRetainAllocationHandle", "cuMemGetAllocationPropertiesFromHandle",
                           "cuMemsetD32Async", "cuStreamWriteValue32", "cuGetErrorString"}) {
    INFO(name);
    CHECK(entry_point<void*>(name) != nullptr);
  }
}
