// See mapping_calls.h.
#include "harness/tools/qualify/mapping_calls.h"

#include <cuda_runtime_api.h>

#include <string>

#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/driver_entry_point.h"

namespace allocmark::qualify {
namespace {

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  throw EnvironmentError({.what = std::string(call) + " failed",
                          .where = "CUDA driver",
                          .got = "error " + std::to_string(result)});
}

bool device_maps(int device) {
  decltype(&::cuDeviceGetAttribute) ask = nullptr;
  look_up_driver("cuDeviceGetAttribute", ask);
  int value = 0;
  return ask(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) ==
             CUDA_SUCCESS &&
         value != 0;
}

}  // namespace

std::optional<MappingCalls> MappingCalls::find() {
  MappingCalls calls;
  int device = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
  if (!device_maps(device)) return std::nullopt;
  calls.properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  calls.properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  calls.properties_.location.id = device;
  return calls;
}

void MappingCalls::reserve(MappedPages& pages) const {
  check(driver_.reserve(&pages.address, pages.size_bytes, 0, 0, 0), "cuMemAddressReserve");
}

bool MappingCalls::try_create(MappedPages& pages) const {
  const CUresult result = driver_.create(&pages.handle, pages.size_bytes, &properties_, 0);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) check(result, "cuMemCreate");
  return result == CUDA_SUCCESS;
}

void MappingCalls::map(const MappedPages& pages) const {
  check(driver_.map(pages.address, pages.size_bytes, 0, pages.handle, 0), "cuMemMap");
}

bool MappingCalls::try_set_access(const MappedPages& pages) const {
  const CUmemAccessDesc access{.location = properties_.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUresult result = driver_.set_access(pages.address, pages.size_bytes, &access, 1);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) check(result, "cuMemSetAccess");
  return result == CUDA_SUCCESS;
}

void MappingCalls::unmap(const MappedPages& pages) const {
  check(driver_.unmap(pages.address, pages.size_bytes), "cuMemUnmap");
}

void MappingCalls::release(const MappedPages& pages) const {
  check(driver_.release(pages.handle), "cuMemRelease");
}

void MappingCalls::free_address(const MappedPages& pages) const {
  check(driver_.free_address(pages.address, pages.size_bytes), "cuMemAddressFree");
}

}  // namespace allocmark::qualify
