// The virtual memory calls of the caching allocator: driver functions, looked up by name at run
// time.
#include <fmt/format.h>

#include <string_view>

#include "allocators/cuda/cuda_driver.h"
#include "allocators/cuda/driver_entry_point.h"
#include "allocators/cuda/driver_mapping.h"
#include "base/bytes.h"
#include "base/error.h"

namespace allocmark {

namespace {

constexpr unsigned kFabricHandle = 8;

// The driver functions beside those that map memory.
struct OtherFunctions {
  decltype(&::cuDeviceGetAttribute) device_attribute = nullptr;
  decltype(&::cuGetErrorString) error_string = nullptr;
};

const OtherFunctions& other_functions() {
  static const OtherFunctions functions = [] {
    OtherFunctions found;
    look_up_driver("cuDeviceGetAttribute", found.device_attribute);
    look_up_driver("cuGetErrorString", found.error_string);
    return found;
  }();
  return functions;
}

void check(CUresult result, std::string_view call) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  (void)other_functions().error_string(result, &text);
  throw EnvironmentError(
      {.what = fmt::format("the CUDA driver call {} failed", call),
       .where = "virtual memory of an allocator",
       .got = fmt::format("{} ({})", static_cast<int>(result), text == nullptr ? "?" : text)});
}

}  // namespace

std::uint64_t CudaDriver::reserve_address(std::uint64_t size_bytes) {
  CUdeviceptr address = 0;
  const CUresult result = driver_mapping().reserve(&address, size_bytes, 0, 0, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    throw EnvironmentError(
        {.what = "the address space is used up (cuMemAddressReserve)",
         .where = "an expandable segment of an allocator",
         .wanted =
             fmt::format("{} of addresses, for one more stream or pool", format_bytes(size_bytes)),
         .got = "out of memory; no memory of the device is missing",
         .next = "use fewer streams, or expandable_segments:False for this job"});
  }
  check(result, "cuMemAddressReserve");
  return address;
}

void CudaDriver::free_address(std::uint64_t address, std::uint64_t size_bytes) {
  check(driver_mapping().free_address(address, size_bytes), "cuMemAddressFree");
}

CUresult CudaDriver::try_create(std::uint64_t size_bytes, CUmemGenericAllocationHandle* handle) {
  int direct_rdma = 0;
  check(other_functions().device_attribute(
            &direct_rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device_),
        "cuDeviceGetAttribute");
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_;
  properties.requestedHandleTypes =
      static_cast<CUmemAllocationHandleType>(handle_type_.value_or(kFabricHandle));
  properties.allocFlags.gpuDirectRDMACapable = direct_rdma != 0 ? 1 : 0;
  return driver_mapping().create(handle, size_bytes, &properties, 0);
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
  check(result, "cuMemCreate");
  return handle;
}

void CudaDriver::release_page(caching::PageHandle page) {
  check(driver_mapping().release(page), "cuMemRelease");
}

void CudaDriver::map_page(std::uint64_t address, std::uint64_t size_bytes,
                          caching::PageHandle page) {
  check(driver_mapping().map(address, size_bytes, 0, page, 0), "cuMemMap");
}

void CudaDriver::unmap_page(std::uint64_t address, std::uint64_t size_bytes) {
  check(driver_mapping().unmap(address, size_bytes), "cuMemUnmap");
}

void CudaDriver::allow_access(std::uint64_t address, std::uint64_t size_bytes) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check(driver_mapping().set_access(address, size_bytes, &access, 1), "cuMemSetAccess");
}

}  // namespace allocmark
