// Pools for other processes: a file stands for the pool, and a record for each of its blocks. In:
// pools that were made with handles of files, their blocks, and what another process sent. Out:
// files and records, and pools that only open blocks. Codes are an H200's (driver 580.159.04,
// 2026-11-27).
#include <algorithm>
#include <cstring>
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/sharing.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

std::uint16_t pool_number(const SimPool& pool) { return static_cast<std::uint16_t>(pool.id); }

cudaError_t export_pool(void* handle, cudaMemPool_t pool, int type, std::uint64_t flags) {
  const SimPool* const object = resolve_pool(pool);
  if (handle == nullptr || object == nullptr || flags != 0 ||
      type != cudaMemHandleTypePosixFileDescriptor || !has_file_handles(object->identity)) {
    return cudaErrorInvalidValue;
  }
  const int file = record_file("simcuda pool", sealed({.kind = SharedKind::Pool,
                                                       .pool = pool_number(*object),
                                                       .device = object->device->node_index}));
  if (file < 0) return cudaErrorMemoryAllocation;
  std::memcpy(handle, &file, sizeof file);
  return cudaSuccess;
}

cudaError_t import_pool(ThreadState& thread, cudaMemPool_t* result, void* handle, int type,
                        std::uint64_t flags) {
  SimulatedDevice* const device = current_device(thread);
  if (result == nullptr || device == nullptr || flags != 0 ||
      type != cudaMemHandleTypePosixFileDescriptor) {
    return cudaErrorInvalidValue;
  }
  ShareRecord record;
  const int file = static_cast<int>(number(handle));
  if (const cudaError_t bad = read_record(file, SharedKind::Pool, &record); bad != cudaSuccess) {
    return bad;
  }
  const std::lock_guard lock(device->mutex);
  const PoolOutcome outcome = device->core.create_pool(0);
  SimPool* const pool = device->new_pool(outcome.pool);
  if (outcome.status != Status::Ok || pool == nullptr) return cudaErrorMemoryAllocation;
  pool->is_imported = true;
  pool->source = record;
  *result = reinterpret_cast<cudaMemPool_t>(pool);
  return cudaSuccess;
}

// The pool with handles that has the block; null where none does.
const SimPool* shared_pool_of(SimulatedDevice& device, Range block) {
  const auto found = std::ranges::find_if(device.shared_pools, [&](const SimPool* pool) {
    const MemoryPool* const core = pool->live ? device.core.pool(pool->id) : nullptr;
    return core != nullptr && !core->find(block.lo).empty();
  });
  return found == device.shared_pools.end() ? nullptr : *found;
}

template <class Data>
cudaError_t export_pointer(ThreadState& thread, Data* data, std::uint64_t address) {
  SimulatedDevice* const device = device_of_address(address);
  if (data == nullptr || device == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(device->mutex);
  const MemoryBlock block = device->core.find(address);
  const SimPool* const pool = shared_pool_of(*device, block.range);
  if (block.kind != MemoryKind::Pool || block.range.lo != address || pool == nullptr) {
    return cudaErrorInvalidValue;
  }
  ShareRecord record = device->shared.give(block.range, block.asked_bytes, SharedKind::PoolBlock);
  if (record.size_bytes == 0) return no_sharing(thread);
  record.pool = pool_number(*pool);
  put(sealed(record), data);
  return cudaSuccess;
}

template <class Data>
cudaError_t import_pointer(void** pointer, cudaMemPool_t pool, const Data* data) {
  const SimPool* const object = resolve_any_pool(pool);
  if (pointer == nullptr || data == nullptr || object == nullptr || !object->is_imported) {
    return cudaErrorInvalidValue;
  }
  const ShareRecord record = record_of(*data);
  const ShareRecord& source = object->source;
  if (!is_sealed(record, SharedKind::PoolBlock) || record.process != source.process ||
      record.device != source.device || record.pool != source.pool) {
    return cudaErrorInvalidValue;
  }
  SimulatedDevice& device = *object->device;
  const std::lock_guard lock(device.mutex);
  const SharedBlocks::Opened opened = device.shared.open(record);
  if (opened.error == cudaSuccess) *pointer = reinterpret_cast<void*>(opened.address);
  return opened.error;
}

}  // namespace

SIMCUDA_PAIR(cudaMemPoolExportToShareableHandle,
             (void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type,
              unsigned int flags),
             cuMemPoolExportToShareableHandle,
             (void* handle, CUmemoryPool pool, CUmemAllocationHandleType type,
              unsigned long long flags),
             (number(pool), as_number(type), flags), export_pool(handle, pool, type, flags))
SIMCUDA_PAIR(
    cudaMemPoolImportFromShareableHandle,
    (cudaMemPool_t * pool, void* handle, cudaMemAllocationHandleType type, unsigned int flags),
    cuMemPoolImportFromShareableHandle,
    (CUmemoryPool * pool, void* handle, CUmemAllocationHandleType type, unsigned long long flags),
    (number(handle), as_number(type), flags), import_pool(thread, pool, handle, type, flags))
SIMCUDA_PAIR(cudaMemPoolExportPointer, (cudaMemPoolPtrExportData * data, void* pointer),
             cuMemPoolExportPointer, (CUmemPoolPtrExportData * data, CUdeviceptr pointer),
             (number(pointer)), export_pointer(thread, data, number(pointer)))
SIMCUDA_PAIR(cudaMemPoolImportPointer,
             (void** pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData* data),
             cuMemPoolImportPointer,
             (CUdeviceptr * pointer, CUmemoryPool pool, CUmemPoolPtrExportData* data),
             (number(pool)), import_pointer(as_runtime<void**>(pointer), pool, data))

}  // namespace simcuda
