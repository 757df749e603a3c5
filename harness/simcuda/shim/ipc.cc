// Handles for other processes: of blocks of cudaMalloc, of events, of pools and of their blocks.
// In: pointers, events, pools, and handles that another process sent. Out: handles, and what they
// stand for here. Codes are an H200's (driver 580.159.04, 2026-11-27). The bytes are shared; the
// device is not: each process has its own, and what it opened costs it nothing.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/shared_blocks.h"
#include "harness/simcuda/shim/sharing.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {

int record_file(const char* name, const ShareRecord& record) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file >= 0 && write(file, &record, sizeof record) != static_cast<ssize_t>(sizeof record)) {
    close(file);
    return -1;
  }
  return file;
}

cudaError_t read_record(int file, SharedKind kind, ShareRecord* record) {
  if (lseek(file, 0, SEEK_CUR) < 0 && errno == EBADF) return cudaErrorUnknown;
  const bool is_whole =
      pread(file, record, sizeof *record, 0) == static_cast<ssize_t>(sizeof *record);
  return is_whole && is_sealed(*record, kind) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t no_sharing(ThreadState& thread) {
  return explain(thread, cudaErrorNotSupported,
                 "simcuda: this system does not let processes share the block's pages");
}

namespace {

template <class Handle>
cudaError_t get_memory(ThreadState& thread, Handle* handle, std::uint64_t address) {
  SimulatedDevice* const device = device_of_address(address);
  if (handle == nullptr || device == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(device->mutex);
  const MemoryBlock block = device->core.find(address);
  if (block.kind != MemoryKind::Heap) return cudaErrorInvalidValue;
  const ShareRecord record = device->shared.give(block.range, block.asked_bytes, SharedKind::Block);
  if (record.size_bytes == 0) return no_sharing(thread);
  put(record, handle);
  return cudaSuccess;
}

template <class Handle>
cudaError_t open_memory(ThreadState& thread, void** pointer, const Handle& handle, unsigned flags) {
  const ShareRecord record = record_of(handle);
  SimulatedDevice* const device = current_device(thread);
  if (pointer == nullptr || device == nullptr || flags != cudaIpcMemLazyEnablePeerAccess ||
      !is_sealed(record, SharedKind::Block)) {
    return cudaErrorInvalidValue;
  }
  if (record.process == getpid()) return cudaErrorDeviceUninitialized;
  const std::lock_guard lock(device->mutex);
  const SharedBlocks::Opened opened = device->shared.open(record);
  if (opened.error == cudaSuccess) *pointer = reinterpret_cast<void*>(opened.address);
  return opened.error;
}

cudaError_t close_memory(std::uint64_t address) {
  SimulatedDevice* const device = device_of_address(address);
  if (device == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(device->mutex);
  return device->shared.close(address, false);
}

template <class Handle>
cudaError_t get_event(Handle* handle, cudaEvent_t event) {
  const SimEvent* const object = resolve_event(event);
  if (handle == nullptr) return cudaErrorInvalidValue;
  if (object == nullptr || (object->flags & cudaEventInterprocess) == 0) {
    return cudaErrorInvalidResourceHandle;
  }
  put(sealed({.kind = SharedKind::Event, .device = object->device->node_index}), handle);
  return cudaSuccess;
}

// Work of another process is never behind: its device is another one. So the event is one that was
// not recorded yet, which is complete.
template <class Handle>
cudaError_t open_event(ThreadState& thread, cudaEvent_t* result, const Handle& handle) {
  SimulatedDevice* const device = current_device(thread);
  if (result == nullptr || device == nullptr || !is_sealed(record_of(handle), SharedKind::Event)) {
    return cudaErrorInvalidValue;
  }
  const std::lock_guard lock(device->mutex);
  SimEvent* const event = device->new_event(device->core.streams().create_event());
  if (event == nullptr) return cudaErrorMemoryAllocation;
  event->flags = cudaEventDisableTiming;
  *result = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}

}  // namespace

SIMCUDA_PAIR(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* pointer), cuIpcGetMemHandle,
             (CUipcMemHandle * handle, CUdeviceptr pointer), (number(pointer)),
             get_memory(thread, handle, number(pointer)))
SIMCUDA_PAIR(cudaIpcOpenMemHandle, (void** pointer, cudaIpcMemHandle_t handle, unsigned int flags),
             cuIpcOpenMemHandle, (CUdeviceptr * pointer, CUipcMemHandle handle, unsigned int flags),
             (flags), open_memory(thread, as_runtime<void**>(pointer), handle, flags))

SIMCUDA_PAIR(cudaIpcCloseMemHandle, (void* pointer), cuIpcCloseMemHandle, (CUdeviceptr pointer),
             (number(pointer)), close_memory(number(pointer)))
SIMCUDA_PAIR(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
             cuIpcGetEventHandle, (CUipcEventHandle * handle, CUevent event), (number(event)),
             get_event(handle, event))
SIMCUDA_PAIR(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle),
             cuIpcOpenEventHandle, (CUevent * event, CUipcEventHandle handle), (),
             open_event(thread, event, handle))
}  // namespace simcuda
