// The cudaMemPool functions: pools are made, set, trimmed and shared with peers. In: handles and
// attributes. Out: what the core's pools answer, with the modelled time of releasing chunks. What
// allocates from them is in async_memory.cc.
#include <cstring>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/peers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t set_attribute(MemoryPool& pool, cudaMemPoolAttr attribute, const void* value) {
  int flag = 0;
  std::uint64_t bytes = 0;
  if (attribute <= cudaMemPoolReuseAllowInternalDependencies) {
    std::memcpy(&flag, value, sizeof flag);
  } else {
    std::memcpy(&bytes, value, sizeof bytes);
  }
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      pool.set_follow_event_dependencies(flag != 0);
      return cudaSuccess;
    case cudaMemPoolReuseAllowOpportunistic:
      pool.set_allow_opportunistic(flag != 0);
      return cudaSuccess;
    case cudaMemPoolReuseAllowInternalDependencies:
      pool.set_allow_internal_dependencies(flag != 0);
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      pool.set_release_threshold(bytes);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      if (bytes != 0) {
        return cudaErrorInvalidValue;  // the high marks can only be set back
      }
      if (attribute == cudaMemPoolAttrReservedMemHigh) {
        pool.reset_reserved_high();
      } else {
        pool.reset_used_high();
      }
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t get_attribute(const MemoryPool& pool, cudaMemPoolAttr attribute, void* value) {
  const PoolAttributes& attributes = pool.attributes();
  const PoolUsage usage = pool.usage();
  const auto give_flag = [&](bool flag) {
    const int as_int = flag ? 1 : 0;
    std::memcpy(value, &as_int, sizeof as_int);
    return cudaSuccess;
  };
  const auto give_bytes = [&](std::uint64_t bytes) {
    std::memcpy(value, &bytes, sizeof bytes);
    return cudaSuccess;
  };
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return give_flag(attributes.follow_event_dependencies);
    case cudaMemPoolReuseAllowOpportunistic:
      return give_flag(attributes.allow_opportunistic);
    case cudaMemPoolReuseAllowInternalDependencies:
      return give_flag(attributes.allow_internal_dependencies);
    case cudaMemPoolAttrReleaseThreshold:
      return give_bytes(attributes.release_threshold_bytes);
    case cudaMemPoolAttrReservedMemCurrent:
      return give_bytes(usage.reserved_bytes);
    case cudaMemPoolAttrReservedMemHigh:
      return give_bytes(usage.reserved_bytes_high);
    case cudaMemPoolAttrUsedMemCurrent:
      return give_bytes(usage.used_bytes);
    case cudaMemPoolAttrUsedMemHigh:
      return give_bytes(usage.used_bytes_high);
    default:
      return cudaErrorInvalidValue;
  }
}

// Runs `body` on the core's pool under the device's lock.
template <class Body>
cudaError_t with_pool(cudaMemPool_t handle, Body body) {
  SimPool* object = resolve_pool(handle);
  if (object == nullptr) {
    return cudaErrorInvalidValue;
  }
  const std::lock_guard lock(object->device->mutex);
  MemoryPool* pool = object->device->core.pool(object->id);
  return pool == nullptr ? cudaErrorInvalidValue : body(*pool, *object);
}

cudaError_t create_pool(ThreadState& thread, cudaMemPool_t* result,
                        const cudaMemPoolProps* properties) {
  if (result == nullptr || properties == nullptr ||
      properties->allocType != cudaMemAllocationTypePinned ||
      properties->location.type != cudaMemLocationTypeDevice) {
    return cudaErrorInvalidValue;
  }
  SimulatedDevice* device = device_at(properties->location.id);
  if (device == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (properties->handleTypes != cudaMemHandleTypeNone) {
    return explain(thread, cudaErrorNotSupported,
                   "simcuda: pools cannot be shared between processes");
  }
  const TickScope ticks(thread);
  const std::lock_guard lock(device->mutex);
  const PoolOutcome outcome = device->core.create_pool(properties->maxSize);
  thread.charge(CostId::PoolCreate);
  if (outcome.status != Status::Ok) {
    return to_error(outcome.status);
  }
  SimPool* pool = device->new_pool(outcome.pool);
  if (pool == nullptr) return cudaErrorMemoryAllocation;
  *result = reinterpret_cast<cudaMemPool_t>(pool);
  return cudaSuccess;
}

cudaError_t destroy_pool(ThreadState& thread, cudaMemPool_t handle) {
  SimPool* pool = resolve_pool(handle);
  if (pool == nullptr || pool == pool->device->default_pool) {
    return cudaErrorInvalidValue;
  }
  const TickScope ticks(thread);
  SimulatedDevice& device = *pool->device;
  const std::lock_guard lock(device.mutex);
  if (device.current_pool == pool) {
    device.current_pool = device.default_pool;
  }
  const Outcome outcome = device.core.destroy_pool(pool->id, thread.now_ns());
  charge_work(thread, device, outcome.work);
  thread.charge(CostId::PoolDestroy);
  if (outcome.status == Status::Ok) {
    device.recycle(pool);
  }
  return to_error(outcome.status);
}

// The pool's own device always has access; its peers have what they are given.
cudaError_t set_access(SimPool& pool, const cudaMemAccessDesc* descriptions, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const cudaMemAccessDesc& wanted = descriptions[i];
    if (wanted.location.type != cudaMemLocationTypeDevice ||
        device_at(wanted.location.id) == nullptr) {
      return cudaErrorInvalidDevice;
    }
    const bool own = wanted.location.id == pool.device->index;
    if (own && wanted.flags != cudaMemAccessFlagsProtReadWrite) {
      return cudaErrorInvalidValue;
    }
    if (own) continue;
    if (!can_be_peers(wanted.location.id, pool.device->index) &&
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
                 return set_attribute(core, static_cast<cudaMemPoolAttr>(attribute), value);
               });
}

cudaError_t get_pool_attribute(ThreadState& thread, cudaMemPool_t pool, int attribute,
                               void* value) {
  thread.charge(CostId::PoolGetAttribute);
  return value == nullptr
             ? cudaErrorInvalidValue
             : with_pool(pool, [&](MemoryPool& core, SimPool&) {
                 return get_attribute(core, static_cast<cudaMemPoolAttr>(attribute), value);
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
  return with_pool(pool, [&](MemoryPool&, SimPool& object) {
    return descriptions == nullptr && count != 0 ? cudaErrorInvalidValue
                                                 : set_access(object, descriptions, count);
  });
}

cudaError_t get_pool_access(ThreadState& thread, cudaMemAccessFlags* flags, cudaMemPool_t pool,
                            const cudaMemLocation* location) {
  thread.charge(CostId::PoolGetAttribute);
  if (flags == nullptr || location == nullptr) {
    return cudaErrorInvalidValue;
  }
  return with_pool(pool, [&](MemoryPool&, SimPool& object) {
    const bool own =
        location->type == cudaMemLocationTypeDevice && location->id == object.device->index;
    if (!own &&
        (location->type != cudaMemLocationTypeDevice || device_at(location->id) == nullptr)) {
      return cudaErrorInvalidDevice;
    }
    *flags = own ? cudaMemAccessFlagsProtReadWrite
                 : object.peer_access[static_cast<std::size_t>(location->id)];
    return cudaSuccess;
  });
}

cudaError_t default_pool(ThreadState& thread, cudaMemPool_t* pool, int index) {
  thread.charge(CostId::DeviceGetAttribute);
  SimulatedDevice* device = device_at(index);
  if (pool == nullptr || device == nullptr) {
    return pool == nullptr ? cudaErrorInvalidValue : cudaErrorInvalidDevice;
  }
  *pool = reinterpret_cast<cudaMemPool_t>(device->default_pool);
  return cudaSuccess;
}

cudaError_t current_pool(ThreadState& thread, cudaMemPool_t* pool, int index) {
  thread.charge(CostId::DeviceGetAttribute);
  SimulatedDevice* device = device_at(index);
  if (pool == nullptr || device == nullptr) {
    return pool == nullptr ? cudaErrorInvalidValue : cudaErrorInvalidDevice;
  }
  const std::lock_guard lock(device->mutex);
  *pool = reinterpret_cast<cudaMemPool_t>(device->current_pool);
  return cudaSuccess;
}

cudaError_t set_current_pool(ThreadState& thread, int index, cudaMemPool_t pool) {
  thread.charge(CostId::PoolSetAttribute);
  SimulatedDevice* device = device_at(index);
  SimPool* object = resolve_pool(pool);
  if (device == nullptr) {
    return cudaErrorInvalidDevice;
  }
  if (object == nullptr || object->device != device) {
    return cudaErrorInvalidValue;
  }
  const std::lock_guard lock(device->mutex);
  device->current_pool = object;
  return cudaSuccess;
}

// The driver's structures are the runtime's under other names: fields, order and enumerators.
static_assert(sizeof(CUmemPoolProps) == sizeof(cudaMemPoolProps));
static_assert(sizeof(CUmemAccessDesc) == sizeof(cudaMemAccessDesc));
static_assert(sizeof(CUmemLocation) == sizeof(cudaMemLocation));
template <class Runtime, class Driver>
const Runtime* as_runtime(const Driver* driver) {
  static_assert(sizeof(Runtime) == sizeof(Driver) && alignof(Runtime) == alignof(Driver));
  return reinterpret_cast<const Runtime*>(driver);
}

}  // namespace

SIMCUDA_TWINS(cudaMemPoolDestroy, cuMemPoolDestroy, (cudaMemPool_t pool), (number(pool)),
              destroy_pool(thread, pool))
SIMCUDA_TWINS(cudaMemPoolTrimTo, cuMemPoolTrimTo, (cudaMemPool_t pool, size_t keep_bytes),
              (number(pool), keep_bytes), trim_pool(thread, pool, keep_bytes))
SIMCUDA_TWINS(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool,
              (cudaMemPool_t * pool, int index), (as_number(index)),
              default_pool(thread, pool, index))
SIMCUDA_TWINS(cudaDeviceGetMemPool, cuDeviceGetMemPool, (cudaMemPool_t * pool, int index),
              (as_number(index)), current_pool(thread, pool, index))
SIMCUDA_TWINS(cudaDeviceSetMemPool, cuDeviceSetMemPool, (int index, cudaMemPool_t pool),
              (as_number(index), number(pool)), set_current_pool(thread, index, pool))

SIMCUDA_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                                             const cudaMemPoolProps* properties) {
  return runtime_call<"cudaMemPoolCreate">(
      {}, [&](ThreadState& thread) { return create_pool(thread, pool, properties); });
}
SIMCUDA_DRIVER(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps* properties), (),
               create_pool(thread, pool, as_runtime<cudaMemPoolProps>(properties)))

SIMCUDA_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                   void* value) {
  return runtime_call<"cudaMemPoolSetAttribute">(
      {number(pool), as_number(attribute)},
      [&](ThreadState& thread) { return set_pool_attribute(thread, pool, attribute, value); });
}
SIMCUDA_DRIVER(cuMemPoolSetAttribute,
               (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
               (number(pool), as_number(attribute)),
               set_pool_attribute(thread, pool, attribute, value))

SIMCUDA_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                   void* value) {
  return runtime_call<"cudaMemPoolGetAttribute">(
      {number(pool), as_number(attribute)},
      [&](ThreadState& thread) { return get_pool_attribute(thread, pool, attribute, value); });
}
SIMCUDA_DRIVER(cuMemPoolGetAttribute,
               (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
               (number(pool), as_number(attribute)),
               get_pool_attribute(thread, pool, attribute, value))

SIMCUDA_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
                                                const cudaMemAccessDesc* descriptions,
                                                size_t count) {
  return runtime_call<"cudaMemPoolSetAccess">({number(pool), count}, [&](ThreadState& thread) {
    return set_pool_access(thread, pool, descriptions, count);
  });
}
SIMCUDA_DRIVER(cuMemPoolSetAccess,
               (CUmemoryPool pool, const CUmemAccessDesc* descriptions, size_t count),
               (number(pool), count),
               set_pool_access(thread, pool, as_runtime<cudaMemAccessDesc>(descriptions), count))

SIMCUDA_EXPORT cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                                cudaMemLocation* location) {
  return runtime_call<"cudaMemPoolGetAccess">({number(pool)}, [&](ThreadState& thread) {
    return get_pool_access(thread, flags, pool, location);
  });
}
SIMCUDA_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool,
                                           CUmemLocation* location) {
  return driver_call<"cuMemPoolGetAccess">({number(pool)}, [&](ThreadState& thread) {
    cudaMemAccessFlags answer = cudaMemAccessFlagsProtNone;
    const cudaError_t error = get_pool_access(thread, flags == nullptr ? nullptr : &answer, pool,
                                              as_runtime<cudaMemLocation>(location));
    if (error == cudaSuccess) *flags = static_cast<CUmemAccess_flags>(answer);
    return as_result(error);
  });
}

}  // namespace simcuda
