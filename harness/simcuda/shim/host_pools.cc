// See host_pools.h. They take chunks as a device's pools do; what a chunk costs is in
// core/pinning_costs.h.
#include "harness/simcuda/shim/host_pools.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

struct HostBlock {
  std::uint64_t hi = 0;
  SimulatedDevice* device = nullptr;
};

struct PlacePools {
  SimPool* initial = nullptr;
  SimPool* current = nullptr;
};

// Of allocation, location, and the location's number.
using PlaceKey = std::tuple<int, int, int>;

struct HostPools {
  std::mutex places_mutex;  // before a device's
  std::map<PlaceKey, PlacePools> places;
  std::mutex blocks_mutex;                    // none is taken under it
  std::map<std::uint64_t, HostBlock> blocks;  // by lo
};
HostPools& host_pools() { return made_once<HostPools>(); }

bool is_managed_kind(int allocation_type) {
#if CUDART_VERSION >= 13000
  return allocation_type == cudaMemAllocationTypeManaged;
#else
  return allocation_type < 0;  // CUDA 12 has none
#endif
}

// Managed memory prefers its place; pinned memory is there.
bool is_place(const PoolIdentity& place) {
  switch (place.location_type) {
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNumaCurrent:
      return true;
    case cudaMemLocationTypeHostNuma:
      return is_numa_node(place.location_id);
    case cudaMemLocationTypeDevice:
      return device_at(place.location_id) != nullptr;
    default:
      return place.location_type == cudaMemLocationTypeInvalid;  // nowhere in particular
  }
}

PlaceKey key_of(const PoolIdentity& place) {
  const bool has_id = place.location_type == cudaMemLocationTypeHostNuma ||
                      place.location_type == cudaMemLocationTypeDevice;
  return {place.allocation_type, place.location_type, has_id ? place.location_id : 0};
}

// Addresses with pages where they are touched, between whole chunks; empty where there are none.
Range map_range(std::uint64_t size_bytes) {
  const std::uint64_t lo = number(map_host_pages(size_bytes + kChunkBytes));
  if (lo == 0) return {};
  const Range range = {round_up(lo, kChunkBytes), round_up(lo, kChunkBytes) + size_bytes};
  if (range.lo > lo) munmap(reinterpret_cast<void*>(lo), range.lo - lo);
  const std::uint64_t rest_bytes = lo + kChunkBytes - range.lo;
  if (rest_bytes > 0) munmap(reinterpret_cast<void*>(range.hi), rest_bytes);
  return range;
}

// Addresses of pools that are gone.
void unmap_unused(SimulatedDevice& device) {
  std::erase_if(device.host_ranges, [&](const auto& entry) {
    const auto& [pool, range] = entry;
    if (device.core.holds_pool(pool)) return false;
    munmap(reinterpret_cast<void*>(range.lo), range.size_bytes());
    return true;
  });
}

// Null where there is no room.
SimPool* add_pool(SimulatedDevice& device, const PoolIdentity& identity) {
  const std::lock_guard lock(device.mutex);
  unmap_unused(device);
  const DeviceConfig& config = device.core.config();
  const std::uint64_t host_bytes = config.host.is_one_pool ? config.total_bytes : config.host_bytes;
  const std::uint64_t most_bytes =
      identity.max_bytes == 0 ? host_bytes : std::min(identity.max_bytes, host_bytes);
  const Range range = map_range(2 * round_up(most_bytes, kChunkBytes));
  if (range.empty()) return nullptr;
  const PoolId id = device.core.create_host_pool(range).pool;
  device.host_ranges[id] = range;
  SimPool* const pool = device.new_pool(id);
  if (pool == nullptr) {
    static_cast<void>(device.core.destroy_pool(id, 0));
    return nullptr;
  }
  pool->identity = identity;
  pool->is_host = true;
  return pool;
}

}  // namespace

bool is_host_pool(int allocation_type, int location_type) {
  const bool is_host =
      location_type == cudaMemLocationTypeHost || location_type == cudaMemLocationTypeHostNuma;
  return is_managed_kind(allocation_type) ||
         (allocation_type == cudaMemAllocationTypePinned && is_host);
}

cudaError_t create_host_pool(ThreadState& thread, cudaMemPool_t* pool,
                             const PoolIdentity& identity) {
  SimulatedDevice* const device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  // The manual wants 0 there.
  const bool is_sized = is_managed_kind(identity.allocation_type) && identity.max_bytes != 0;
  if (is_sized || !is_place(identity)) return cudaErrorInvalidValue;
  SimPool* const made = add_pool(*device, identity);
  if (made == nullptr) return cudaErrorMemoryAllocation;
  *pool = reinterpret_cast<cudaMemPool_t>(made);
  return cudaSuccess;
}

cudaError_t host_pool_of_place(ThreadState& thread, cudaMemPool_t* pool, const PoolIdentity& place,
                               PoolRole role) {
  SimulatedDevice* const device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  if (!is_place(place)) return cudaErrorInvalidValue;
  const std::lock_guard lock(host_pools().places_mutex);
  PlacePools& pools = host_pools().places[key_of(place)];
  if (pools.initial == nullptr) {
    pools.initial = add_pool(*device, place);
    if (pools.initial == nullptr) return cudaErrorMemoryAllocation;
    pools.initial->is_default = true;
  }
  SimPool* const current = pools.current != nullptr ? pools.current : pools.initial;
  *pool = reinterpret_cast<cudaMemPool_t>(role == PoolRole::Default ? pools.initial : current);
  return cudaSuccess;
}

cudaError_t set_host_pool_of_place(SimPool* pool, const PoolIdentity& place) {
  if (!is_place(place) || key_of(pool->identity) != key_of(place)) return cudaErrorInvalidValue;
  const std::lock_guard lock(host_pools().places_mutex);
  host_pools().places[key_of(place)].current = pool;
  return cudaSuccess;
}

void leave_place(const SimPool* pool) {
  const std::lock_guard lock(host_pools().places_mutex);
  for (auto& [place, pools] : host_pools().places) {
    if (pools.current == pool) pools.current = nullptr;
  }
}

void note_host_block(const SimPool& pool, const void* pointer, std::size_t size_bytes) {
  if (is_managed_kind(pool.identity.allocation_type))
    adopt_managed(pointer, size_bytes, pool.device->index);
  const std::lock_guard lock(host_pools().blocks_mutex);
  host_pools().blocks[number(pointer)] = {.hi = number(pointer) + size_bytes,
                                          .device = pool.device};
}

Range host_pool_block(const void* pointer) {
  HostPools& all = host_pools();
  const std::lock_guard lock(all.blocks_mutex);
  const auto found = last_up_to(all.blocks, number(pointer));
  if (found == all.blocks.end() || number(pointer) >= found->second.hi) return {};
  return {found->first, found->second.hi};
}

SimulatedDevice* device_of_host_block(const void* pointer) {
  HostPools& all = host_pools();
  const std::lock_guard lock(all.blocks_mutex);
  const auto found = all.blocks.find(number(pointer));
  return found == all.blocks.end() ? nullptr : found->second.device;
}

void forget_host_block(void* pointer) {
  HostPools& all = host_pools();
  {
    const std::lock_guard lock(all.blocks_mutex);
    if (all.blocks.erase(number(pointer)) == 0) return;
  }
  static_cast<void>(free_managed(pointer));  // where it was managed memory
}

}  // namespace simcuda
