// Memory handles as POSIX files. Codes are an H200's (driver 580.159.04, 2026-11-27).
#include "harness/simcuda/shim/memory_handles.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/sharing.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// A page with the record, then the memory's bytes.
constexpr std::uint64_t kBytesBegin = kPageBytes;

CUresult export_handle(void* shareable, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType type, unsigned long long flags) {
  SimulatedDevice* const device = device_of_handle(handle);
  if (shareable == nullptr || device == nullptr || flags != 0 ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(device->mutex);
  const MemoryHandle id = core_handle(handle);
  if (device->core.virtual_memory().handle_bytes(id) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int file = device->contents.own_file(id).file;
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  const int given = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (given < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(shareable, &given, sizeof given);
  return CUDA_SUCCESS;
}

// Of another process or of this one: a handle of its own for the same bytes, which costs nothing.
CUresult import_handle(ThreadState& thread, CUmemGenericAllocationHandle* handle, void* shareable,
                       CUmemAllocationHandleType type) {
  SimulatedDevice* const device = current_device(thread);
  if (handle == nullptr || device == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ShareRecord record;
  const int file = static_cast<int>(number(shareable));
  if (const cudaError_t bad = read_record(file, SharedKind::Memory, &record); bad != cudaSuccess) {
    return as_result(bad);
  }
  const std::lock_guard lock(device->mutex);
  const HandleOutcome outcome = device->core.virtual_memory().adopt(record.size_bytes);
  const int own = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (outcome.status != Status::Ok || own < 0) return CUDA_ERROR_INVALID_VALUE;
  device->contents.put_into_file(outcome.handle, {.file = own, .offset_bytes = kBytesBegin});
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->index};
  device->handles[outcome.handle] = {
      .size_bytes = record.size_bytes, .reference_count = 1, .properties = properties};
  *handle = to_handle(*device, outcome.handle);
  return CUDA_SUCCESS;
}

}  // namespace

void put_into_own_file(SimulatedDevice& device, MemoryHandle handle, std::uint64_t size_bytes) {
  const int file = record_file(
      "simcuda memory",
      sealed({.kind = SharedKind::Memory, .device = device.node_index, .size_bytes = size_bytes}));
  if (file < 0) return;
  if (ftruncate(file, static_cast<off_t>(kBytesBegin + size_bytes)) != 0) {
    close(file);
    return;
  }
  device.contents.put_into_file(handle, {.file = file, .offset_bytes = kBytesBegin});
}

SIMCUDA_DRIVER(cuMemExportToShareableHandle,
               (void* shareable, CUmemGenericAllocationHandle handle,
                CUmemAllocationHandleType type, unsigned long long flags),
               (handle, as_number(type), flags), export_handle(shareable, handle, type, flags))

SIMCUDA_DRIVER(cuMemImportFromShareableHandle,
               (CUmemGenericAllocationHandle * handle, void* shareable,
                CUmemAllocationHandleType type),
               (number(shareable), as_number(type)), import_handle(thread, handle, shareable, type))

}  // namespace simcuda
