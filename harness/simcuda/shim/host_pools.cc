// See host_pools.h. The chunks that a driver takes for such pools were not measured: here a pool
// has what its blocks have, and gives a block's memory back when it is freed.
#include "harness/simcuda/shim/host_pools.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/pool_values.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kPoolPageBytes = 4096;

struct HostPool {
  bool is_managed = false;
  bool is_default = false;
  int device = 0;  // current when it was made
  PoolIdentity identity{};
  std::array<int, 3> reuse = {1, 1, 1};
  std::uint64_t release_threshold = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t used_bytes_high = 0;
};

struct HostPoolBlock {
  std::uint64_t hi = 0;
  std::uint64_t taken_bytes = 0;
  HostPool* pool = nullptr;  // null: destroyed, and the block lives on
};

struct HostPools {
  std::mutex mutex;
  std::map<cudaMemPool_t, std::unique_ptr<HostPool>> pools;
  std::map<std::tuple<int, int, int>, cudaMemPool_t> defaults;  // of allocation and location
  std::map<std::uint64_t, HostPoolBlock> blocks;                // by lo
};
HostPools& host_pools() { return made_once<HostPools>(); }

// Under the lock. Null where there is none.
HostPool* find_pool(cudaMemPool_t handle) {
  const auto found = host_pools().pools.find(handle);
  return found == host_pools().pools.end() ? nullptr : found->second.get();
}

bool is_place(const cudaMemLocation& location, bool is_managed) {
  switch (location.type) {
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNumaCurrent:
      return true;
    case cudaMemLocationTypeHostNuma:
      return is_numa_node(location.id);
    case cudaMemLocationTypeDevice:
      return is_managed && device_at(location.id) != nullptr;
    default:
      return is_managed;  // no preferred place
  }
}

cudaMemPool_t add_pool(HostPool pool) {
  auto made = std::make_unique<HostPool>(pool);
  const auto handle = reinterpret_cast<cudaMemPool_t>(made.get());
  host_pools().pools[handle] = std::move(made);
  return handle;
}

PoolIdentity identity_of(int allocation_type, const cudaMemLocation& location,
                         std::uint64_t max_bytes) {
  return {.allocation_type = allocation_type,
          .location_type = location.type,
          .location_id = location.id,
          .max_bytes = max_bytes};
}

bool is_managed_kind(int allocation_type) {
#if CUDART_VERSION >= 13000
  return allocation_type == cudaMemAllocationTypeManaged;
#else
  return allocation_type < 0;  // CUDA 12 has none
#endif
}

}  // namespace

bool is_host_pool(int allocation_type, int location_type) {
  const bool is_host = location_type == cudaMemLocationTypeHost ||
                       location_type == cudaMemLocationTypeHostNuma ||
                       location_type == cudaMemLocationTypeHostNumaCurrent;
  return is_managed_kind(allocation_type) ||
         (allocation_type == cudaMemAllocationTypePinned && is_host);
}

cudaError_t create_host_pool(cudaMemPool_t* pool, const cudaMemPoolProps& properties, int device) {
  const bool is_managed = is_managed_kind(properties.allocType);
  if (!is_place(properties.location, is_managed)) return cudaErrorInvalidValue;
  const std::lock_guard lock(host_pools().mutex);
  *pool = add_pool(
      {.is_managed = is_managed,
       .device = device,
       .identity = identity_of(properties.allocType, properties.location, properties.maxSize)});
  return cudaSuccess;
}

cudaError_t default_host_pool(cudaMemPool_t* pool, const cudaMemLocation& location,
                              int allocation_type, int device) {
  const bool is_managed = is_managed_kind(allocation_type);
  if (!is_place(location, is_managed)) return cudaErrorInvalidValue;
  const bool has_id =
      location.type == cudaMemLocationTypeHostNuma || location.type == cudaMemLocationTypeDevice;
  const std::lock_guard lock(host_pools().mutex);
  cudaMemPool_t& made =
      host_pools().defaults[{allocation_type, location.type, has_id ? location.id : 0}];
  if (made == nullptr) {
    made = add_pool({.is_managed = is_managed,
                     .is_default = true,
                     .device = device,
                     .identity = identity_of(allocation_type, location, 0)});
  }
  *pool = made;
  return cudaSuccess;
}

bool is_live_host_pool(cudaMemPool_t handle) {
  const std::lock_guard lock(host_pools().mutex);
  return find_pool(handle) != nullptr;
}

// Blocks stay with their owners, as those of a device's pool do.
std::optional<cudaError_t> destroy_host_pool(cudaMemPool_t handle) {
  HostPools& all = host_pools();
  const std::lock_guard lock(all.mutex);
  HostPool* const pool = find_pool(handle);
  if (pool == nullptr) return std::nullopt;
  if (pool->is_default) return cudaErrorInvalidValue;
  for (auto& [lo, block] : all.blocks) {
    if (block.pool == pool) block.pool = nullptr;
  }
  all.pools.erase(handle);
  return cudaSuccess;
}

std::optional<cudaError_t> set_host_pool_value(cudaMemPool_t handle, int attribute,
                                               const void* value) {
  const std::lock_guard lock(host_pools().mutex);
  HostPool* const pool = find_pool(handle);
  if (pool == nullptr) return std::nullopt;
  if (attribute >= cudaMemPoolReuseFollowEventDependencies &&
      attribute <= cudaMemPoolReuseAllowInternalDependencies) {
    int flag = 0;
    std::memcpy(&flag, value, sizeof flag);
    pool->reuse[static_cast<std::size_t>(attribute - 1)] = flag != 0 ? 1 : 0;
    return cudaSuccess;
  }
  // Only attributes that are known have a value of a known size.
  const auto bytes = [&] {
    std::uint64_t number = 0;
    std::memcpy(&number, value, sizeof number);
    return number;
  };
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      pool->release_threshold = bytes();
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      if (bytes() != 0) return cudaErrorInvalidValue;  // the high marks can only be set back
      pool->used_bytes_high = pool->used_bytes;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

std::optional<cudaError_t> get_host_pool_value(cudaMemPool_t handle, int attribute, void* value) {
  const std::lock_guard lock(host_pools().mutex);
  const HostPool* const pool = find_pool(handle);
  if (pool == nullptr) return std::nullopt;
  if (get_pool_identity(pool->identity, attribute, value)) return cudaSuccess;
  std::uint64_t bytes = 0;
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      std::memcpy(value, &pool->reuse[static_cast<std::size_t>(attribute - 1)], sizeof(int));
      return cudaSuccess;
    case cudaMemPoolAttrReleaseThreshold:
      bytes = pool->release_threshold;
      break;
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      bytes = pool->used_bytes;
      break;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      bytes = pool->used_bytes_high;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}

std::optional<cudaError_t> allocate_from_host_pool(cudaMemPool_t handle, void** pointer,
                                                   std::size_t size_bytes) {
  HostPools& all = host_pools();
  const std::lock_guard lock(all.mutex);
  HostPool* const pool = find_pool(handle);
  if (pool == nullptr) return std::nullopt;
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (size_bytes == 0) return cudaSuccess;
  if (size_bytes > kManagedBytesMax) return cudaErrorMemoryAllocation;
  const std::uint64_t taken_bytes = round_up(size_bytes, kPoolPageBytes);
  const std::uint64_t max_bytes = pool->identity.max_bytes;
  const bool is_full = max_bytes != 0 &&
                       (pool->used_bytes > max_bytes || taken_bytes > max_bytes - pool->used_bytes);
  void* memory = nullptr;
  if (!is_full)
    memory = pool->is_managed ? make_managed(size_bytes, pool->device, ManagedOwner::Pool)
                              : map_host_pages(size_bytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  all.blocks[number(memory)] = {
      .hi = number(memory) + size_bytes, .taken_bytes = taken_bytes, .pool = pool};
  pool->used_bytes += taken_bytes;
  pool->used_bytes_high = std::max(pool->used_bytes_high, pool->used_bytes);
  *pointer = memory;
  return cudaSuccess;
}

Range host_pool_block(const void* pointer) {
  HostPools& all = host_pools();
  const std::lock_guard lock(all.mutex);
  const auto above = all.blocks.upper_bound(number(pointer));
  if (above == all.blocks.begin()) return {};
  const auto& [lo, block] = *std::prev(above);
  return number(pointer) < block.hi ? Range{lo, block.hi} : Range{};
}

bool free_to_host_pool(void* pointer) {
  HostPools& all = host_pools();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(number(pointer));
  if (found == all.blocks.end()) return false;
  if (found->second.pool != nullptr) found->second.pool->used_bytes -= found->second.taken_bytes;
  if (!free_managed(pointer)) munmap(pointer, found->second.taken_bytes);
  all.blocks.erase(found);
  return true;
}

}  // namespace simcuda
