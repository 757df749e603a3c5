// The cudaMemPool functions: pools are made, set, trimmed and shared with peers. In: handles and
// attributes. Out: what the core's pools answer, with the modelled time of releasing chunks. What
// allocates from them is in async_memory.cc.
#include <optional>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/gaps.h"
#include "harness/simcuda/shim/host_pools.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/peers.h"
#include "harness/simcuda/shim/pool_values.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// Runs `body` on the core's pool under the device's lock.
template <class Body>
cudaError_t with_core_pool(SimPool* object, Body body) {
  if (object == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(object->device->mutex);
  MemoryPool* pool = object->device->core.pool(object->id);
  return pool == nullptr ? cudaErrorInvalidValue : body(*pool, *object);
}
template <class Body>
cudaError_t with_pool(cudaMemPool_t handle, Body body) {
  return with_core_pool(resolve_pool(handle), body);
}

cudaError_t create_device_pool(ThreadState& thread, cudaMemPool_t* result, SimulatedDevice& device,
                               const PoolIdentity& identity) {
  const TickScope ticks(thread);
  const std::lock_guard lock(device.mutex);
  const PoolOutcome outcome = device.core.create_pool(identity.max_bytes);
  thread.charge(CostId::PoolCreate);
  if (outcome.status != Status::Ok) return to_error(outcome.status);
  SimPool* pool = device.new_pool(outcome.pool);
  if (pool == nullptr) return cudaErrorMemoryAllocation;
  pool->identity = identity;
  if (has_file_handles(identity)) device.shared_pools.push_back(pool);
  *result = reinterpret_cast<cudaMemPool_t>(pool);
  return cudaSuccess;
}

// As cudaMemPoolCreate's manual has it: only pools of a device or of a NUMA node have handles.
cudaError_t create_pool(ThreadState& thread, cudaMemPool_t* result,
                        const cudaMemPoolProps* properties) {
  if (result == nullptr || properties == nullptr) return cudaErrorInvalidValue;
  const std::optional<cudaMemLocation> place =
      pool_place(properties->location, properties->allocType);
  if (!place) return cudaErrorInvalidValue;
  const bool is_pinned = properties->allocType == cudaMemAllocationTypePinned;
  const bool is_host = is_host_pool(properties->allocType, place->type);
  const bool can_have_handles = is_pinned && place->type != cudaMemLocationTypeHost;
  const bool has_handles = properties->handleTypes != cudaMemHandleTypeNone;
  if (has_handles && !can_have_handles) return cudaErrorInvalidValue;
  const PoolIdentity identity{.allocation_type = properties->allocType,
                              .location_type = place->type,
                              .location_id = place->id,
                              .max_bytes = properties->maxSize,
                              .handle_types = properties->handleTypes};
  if (is_host && !has_handles) {
    thread.charge(CostId::PoolCreate);
    return create_host_pool(thread, result, identity);
  }
  if (!is_host && (!is_pinned || place->type != cudaMemLocationTypeDevice))
    return cudaErrorInvalidValue;
  SimulatedDevice* const device = is_host ? current_device(thread) : device_at(place->id);
  if (device == nullptr) return cudaErrorInvalidValue;
  if (has_handles && (is_host || !has_file_handles(identity))) {
    return lack(thread, "pool with handles other than of files",
                "simcuda: pools of devices alone are shared between processes, as POSIX files");
  }
  return create_device_pool(thread, result, *device, identity);
}

cudaError_t destroy_pool(ThreadState& thread, cudaMemPool_t handle) {
  SimPool* pool = resolve_any_pool(handle);
  if (pool == nullptr || pool == pool->device->default_pool || pool->is_default) {
    return cudaErrorInvalidValue;
  }
  leave_place(pool);
  const TickScope ticks(thread);
  SimulatedDevice& device = *pool->device;
  const std::lock_guard lock(device.mutex);
  if (device.current_pool == pool) device.current_pool = device.default_pool;
  const Outcome outcome = device.core.destroy_pool(pool->id, thread.now_ns());
  charge_work(thread, device, outcome.work);
  thread.charge(CostId::PoolDestroy);
  if (outcome.status == Status::Ok) pool->live = false;
  return to_error(outcome.status);
}

// The pool's own device, or the host, always has access; others have what they are given.
cudaError_t set_access(SimPool& pool, const cudaMemAccessDesc* descriptions, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const cudaMemAccessDesc& wanted = descriptions[i];
    if (pool.is_host && wanted.location.type != cudaMemLocationTypeDevice) continue;
    if (wanted.location.type != cudaMemLocationTypeDevice ||
        device_at(wanted.location.id) == nullptr) {
      return cudaErrorInvalidDevice;
    }
    const bool own = !pool.is_host && wanted.location.id == pool.device->index;
    if (own && wanted.flags != cudaMemAccessFlagsProtReadWrite) return cudaErrorInvalidValue;
    if (own) continue;
    if (!pool.is_host && !can_be_peers(wanted.location.id, pool.device->index) &&
        wanted.flags != cudaMemAccessFlagsProtNone) {
      return cudaErrorInvalidDevice;
    }
    pool.peer_access[static_cast<std::size_t>(wanted.location.id)] = wanted.flags;
  }
  return cudaSuccess;
}

cudaError_t set_pool_attribute(ThreadState& thread, cudaMemPool_t pool, int attribute,
                               const void* value) {
  thread.charge(CostId::PoolSetAttribute);
  return value == nullptr
             ? cudaErrorInvalidValue
             : with_pool(pool, [&](MemoryPool& core, SimPool&) {
                 return set_pool_value(core, static_cast<cudaMemPoolAttr>(attribute), value);
               });
}

cudaError_t get_pool_attribute(ThreadState& thread, cudaMemPool_t pool, int attribute,
                               void* value) {
  thread.charge(CostId::PoolGetAttribute);
  return value == nullptr
             ? cudaErrorInvalidValue
             : with_pool(pool, [&](MemoryPool& core, SimPool& made) {
                 if (get_pool_identity(made.identity, attribute, value)) return cudaSuccess;
                 return get_pool_value(core, static_cast<cudaMemPoolAttr>(attribute), value);
               });
}

cudaError_t trim_pool(ThreadState& thread, cudaMemPool_t pool, std::size_t keep_bytes) {
  const TickScope ticks(thread);
  thread.charge(CostId::PoolTrim);
  return with_pool(pool, [&](MemoryPool&, SimPool& object) {
    const Outcome outcome = object.device->core.trim_pool(object.id, keep_bytes);
    charge_work(thread, *object.device, outcome.work);
    return to_error(outcome.status);
  });
}

cudaError_t set_pool_access(ThreadState& thread, cudaMemPool_t pool,
                            const cudaMemAccessDesc* descriptions, std::size_t count) {
  thread.charge(CostId::PoolSetAttribute);
  return with_core_pool(resolve_any_pool(pool), [&](MemoryPool&, SimPool& object) {
    return descriptions == nullptr && count != 0 ? cudaErrorInvalidValue
                                                 : set_access(object, descriptions, count);
  });
}

cudaError_t get_pool_access(ThreadState& thread, cudaMemAccessFlags* flags, cudaMemPool_t pool,
                            const cudaMemLocation* location) {
  thread.charge(CostId::PoolGetAttribute);
  if (flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
  return with_core_pool(resolve_any_pool(pool), [&](MemoryPool&, SimPool& object) {
    const bool is_device = location->type == cudaMemLocationTypeDevice;
    const bool own =
        object.is_host ? !is_device : is_device && location->id == object.device->index;
    if (!own && (!is_device || device_at(location->id) == nullptr)) return cudaErrorInvalidDevice;
    *flags = own ? cudaMemAccessFlagsProtReadWrite
                 : object.peer_access[static_cast<std::size_t>(location->id)];
    return cudaSuccess;
  });
}

cudaError_t pool_of_device(ThreadState& thread, cudaMemPool_t* pool, int index, PoolRole role) {
  thread.charge(CostId::DeviceGetAttribute);
  return give_of_device(pool, index, [&](SimulatedDevice& device) {
    const std::lock_guard lock(device.mutex);
    return reinterpret_cast<cudaMemPool_t>(role == PoolRole::Default ? device.default_pool
                                                                     : device.current_pool);
  });
}

cudaError_t pool_of_location(ThreadState& thread, cudaMemPool_t* pool,
                             const cudaMemLocation* location, int allocation_type, PoolRole role) {
  if (pool == nullptr || location == nullptr) return cudaErrorInvalidValue;
  if (location->type == cudaMemLocationTypeHostNumaCurrent) return cudaErrorNotSupported;
  const std::optional<cudaMemLocation> place = pool_place(*location, allocation_type);
  if (!place) return cudaErrorInvalidValue;
  if (is_host_pool(allocation_type, place->type)) {
    return host_pool_of_place(thread, pool,
                              {.allocation_type = allocation_type,
                               .location_type = place->type,
                               .location_id = place->id},
                              role);
  }
  if (allocation_type != cudaMemAllocationTypePinned || place->type != cudaMemLocationTypeDevice ||
      device_at(place->id) == nullptr) {
    return cudaErrorInvalidValue;
  }
  return pool_of_device(thread, pool, place->id, role);
}

cudaError_t set_current_pool(ThreadState& thread, int index, cudaMemPool_t pool) {
  thread.charge(CostId::PoolSetAttribute);
  SimulatedDevice* device = device_at(index);
  SimPool* object = resolve_pool(pool);
  if (device == nullptr) return cudaErrorInvalidDevice;
  if (object == nullptr || object->device != device || object->is_host) {
    return cudaErrorInvalidValue;
  }
  const std::lock_guard lock(device->mutex);
  device->current_pool = object;
  return cudaSuccess;
}

cudaError_t set_pool_of_location(ThreadState& thread, const cudaMemLocation* location,
                                 int allocation_type, cudaMemPool_t pool) {
  if (location == nullptr) return cudaErrorInvalidValue;
  const std::optional<cudaMemLocation> place = pool_place(*location, allocation_type);
  SimPool* const object = resolve_pool(pool);
  if (!place || object == nullptr) return cudaErrorInvalidValue;
  if (!is_host_pool(allocation_type, place->type)) {
    return allocation_type == cudaMemAllocationTypePinned &&
                   place->type == cudaMemLocationTypeDevice
               ? set_current_pool(thread, place->id, pool)
               : cudaErrorInvalidValue;
  }
  thread.charge(CostId::PoolSetAttribute);
  return set_host_pool_of_place(
      object,
      {.allocation_type = allocation_type, .location_type = place->type, .location_id = place->id});
}

}  // namespace

SIMCUDA_TWINS(cudaMemPoolDestroy, cuMemPoolDestroy, (cudaMemPool_t pool), (number(pool)),
              destroy_pool(thread, pool))
SIMCUDA_TWINS(cudaMemPoolTrimTo, cuMemPoolTrimTo, (cudaMemPool_t pool, size_t keep_bytes),
              (number(pool), keep_bytes), trim_pool(thread, pool, keep_bytes))
SIMCUDA_TWINS(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool,
              (cudaMemPool_t * pool, int index), (as_number(index)),
              pool_of_device(thread, pool, index, PoolRole::Default))
SIMCUDA_TWINS(cudaDeviceGetMemPool, cuDeviceGetMemPool, (cudaMemPool_t * pool, int index),
              (as_number(index)), pool_of_device(thread, pool, index, PoolRole::Current))
SIMCUDA_TWINS(cudaDeviceSetMemPool, cuDeviceSetMemPool, (int index, cudaMemPool_t pool),
              (as_number(index), number(pool)), set_current_pool(thread, index, pool))

SIMCUDA_PAIR(cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* properties),
             cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps* properties), (),
             create_pool(thread, pool, as_runtime<const cudaMemPoolProps*>(properties)))
SIMCUDA_PAIR(cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
             cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
             (number(pool), as_number(attribute)),
             set_pool_attribute(thread, pool, attribute, value))
SIMCUDA_PAIR(cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
             cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
             (number(pool), as_number(attribute)),
             get_pool_attribute(thread, pool, attribute, value))
SIMCUDA_PAIR(
    cudaMemPoolSetAccess, (cudaMemPool_t pool, const cudaMemAccessDesc* descriptions, size_t count),
    cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc* descriptions, size_t count),
    (number(pool), count),
    set_pool_access(thread, pool, as_runtime<const cudaMemAccessDesc*>(descriptions), count))
SIMCUDA_PAIR(cudaMemPoolGetAccess,
             (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location),
             cuMemPoolGetAccess,
             (CUmemAccess_flags * flags, CUmemoryPool pool, CUmemLocation* location),
             (number(pool)),
             get_pool_access(thread, as_runtime<cudaMemAccessFlags*>(flags), pool,
                             as_runtime<cudaMemLocation*>(location)))

#if CUDART_VERSION >= 13000
SIMCUDA_PAIR(cudaMemGetDefaultMemPool,
             (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
             cuMemGetDefaultMemPool,
             (CUmemoryPool * pool, CUmemLocation* location, CUmemAllocationType type),
             (as_number(type)),
             pool_of_location(thread, pool, as_runtime<cudaMemLocation*>(location), type,
                              PoolRole::Default))
SIMCUDA_PAIR(
    cudaMemGetMemPool,
    (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type), cuMemGetMemPool,
    (CUmemoryPool * pool, CUmemLocation* location, CUmemAllocationType type), (as_number(type)),
    pool_of_location(thread, pool, as_runtime<cudaMemLocation*>(location), type, PoolRole::Current))
SIMCUDA_PAIR(cudaMemSetMemPool,
             (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool),
             cuMemSetMemPool,
             (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
             (as_number(type), number(pool)),
             set_pool_of_location(thread, as_runtime<cudaMemLocation*>(location), type, pool))
#endif

}  // namespace simcuda
