// The virtual memory calls of the caching allocator: driver functions, looked up by name at run
// time.
#include <fmt/format.h>

#include <string_view>

#include "allocators/cuda_check.h"
#include "allocators/cuda_driver.h"
#include "allocators/driver_entry_point.h"
#include "base/error.h"

namespace allocmark {

struct VirtualMemoryFunctions {
  decltype(&::cuDeviceGetAttribute) device_attribute = nullptr;
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_address = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
  decltype(&::cuGetErrorString) error_string = nullptr;
};

namespace {

constexpr unsigned kFabricHandle = 8;

VirtualMemoryFunctions look_up_all() {
  VirtualMemoryFunctions functions;
  look_up_driver("cuDeviceGetAttribute", functions.device_attribute);
  look_up_driver("cuMemAddressReserve", functions.reserve);
  look_up_driver("cuMemAddressFree", functions.free_address);
  look_up_driver("cuMemCreate", functions.create);
  look_up_driver("cuMemRelease", functions.release);
  look_up_driver("cuMemMap", functions.map);
  look_up_driver("cuMemUnmap", functions.unmap);
  look_up_driver("cuMemSetAccess", functions.set_access);
  look_up_driver("cuGetErrorString", functions.error_string);
  return functions;
}

void check(CUresult result, const VirtualMemoryFunctions& functions, std::string_view call) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  (void)functions.error_string(result, &text);
  throw EnvironmentError(
      {.what = fmt::format("the CUDA driver call {} failed", call),
       .where = "virtual memory of an allocator",
       .wanted = {},
       .got = fmt::format("{} ({})", static_cast<int>(result), text == nullptr ? "?" : text),
       .next = {}});
}

}  // namespace

const VirtualMemoryFunctions& CudaDriver::functions() {
  static const VirtualMemoryFunctions functions = look_up_all();
  return functions;
}

std::uint64_t CudaDriver::reserve_address(std::uint64_t size_bytes) {
  CUdeviceptr address = 0;
  check(functions().reserve(&address, size_bytes, 0, 0, 0), functions(), "cuMemAddressReserve");
  return address;
}

void CudaDriver::free_address(std::uint64_t address, std::uint64_t size_bytes) {
  check(functions().free_address(address, size_bytes), functions(), "cuMemAddressFree");
}

CUresult CudaDriver::try_create(std::uint64_t size_bytes, CUmemGenericAllocationHandle* handle) {
  int direct_rdma = 0;
  check(functions().device_attribute(
            &direct_rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device_),
        functions(), "cuDeviceGetAttribute");
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  properties.requestedHandleTypes =
      static_cast<CUmemAllocationHandleType>(handle_type_.value_or(kFabricHandle));
  properties.allocFlags.gpuDirectRDMACapable = direct_rdma != 0 ? 1 : 0;
  return functions().create(handle, size_bytes, &properties, 0);
}

std::optional<caching::PageHandle> CudaDriver::create_page(std::uint64_t size_bytes) {
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = try_create(size_bytes, &handle);
  if (!handle_type_.has_value() && result != CUDA_ERROR_OUT_OF_MEMORY) {
    handle_type_ =
        result == CUDA_SUCCESS ? kFabricHandle : unsigned{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    if (result != CUDA_SUCCESS) result = try_create(size_bytes, &handle);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return std::nullopt;
  check(result, functions(), "cuMemCreate");
  return handle;
}

void CudaDriver::release_page(caching::PageHandle page) {
  check(functions().release(page), functions(), "cuMemRelease");
}

void CudaDriver::map_page(std::uint64_t address, std::uint64_t size_bytes,
                          caching::PageHandle page) {
  check(functions().map(address, size_bytes, 0, page, 0), functions(), "cuMemMap");
}

void CudaDriver::unmap_page(std::uint64_t address, std::uint64_t size_bytes) {
  check(functions().unmap(address, size_bytes), functions(), "cuMemUnmap");
}

void CudaDriver::allow_access(std::uint64_t address, std::uint64_t size_bytes) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(functions().set_access(address, size_bytes, &access, 1), functions(), "cuMemSetAccess");
}

}  // namespace allocmark
