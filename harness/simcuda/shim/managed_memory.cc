// Managed memory, and what programs advise about it. In: sizes, ranges, places. Out: address space
// of the host without pages, which come when somebody touches them, and what was advised last.
#include "harness/simcuda/shim/managed_memory.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/memory_bytes.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kManagedPageBytes = 4096;
constexpr std::size_t kManagedBytesMax = std::size_t{1} << 46;

// A device, the host, or a NUMA node of it.
struct MemoryPlace {
  cudaMemLocationType type = cudaMemLocationTypeInvalid;  // the default: nowhere
  int id = 0;

  bool operator==(const MemoryPlace&) const = default;
  // As attributes without a type name it.
  [[nodiscard]] int ordinal() const {
    if (type == cudaMemLocationTypeInvalid) return cudaInvalidDeviceId;
    return type == cudaMemLocationTypeDevice ? id : cudaCpuDeviceId;
  }
};

// Of pages.
struct Advice {
  bool is_read_mostly = false;
  MemoryPlace preferred{};
  MemoryPlace prefetched{};
  std::set<int> accessed_by{};  // as ordinal()
};

struct ManagedPages {
  std::uint64_t hi = 0;
  std::uint64_t mapped_bytes = 0;  // 0: of a pool, which has mapped it
  int device = 0;
  std::map<std::uint64_t, Advice> pieces{};  // by their first page; each ends where the next begins
};

struct ManagedMemory {
  std::mutex mutex;
  std::map<std::uint64_t, ManagedPages> blocks;  // by lo
};
ManagedMemory& managed_memory() { return made_once<ManagedMemory>(); }

// Under the lock.
std::map<std::uint64_t, ManagedPages>::iterator block_of(std::uint64_t address) {
  auto& blocks = managed_memory().blocks;
  const auto found = last_up_to(blocks, address);
  return found != blocks.end() && address < found->second.hi ? found : blocks.end();
}

void add_block(const void* pointer, std::size_t size_bytes, std::uint64_t mapped_bytes,
               int device) {
  const std::lock_guard lock(managed_memory().mutex);
  managed_memory().blocks[number(pointer)] = {.hi = number(pointer) + size_bytes,
                                              .mapped_bytes = mapped_bytes,
                                              .device = device,
                                              .pieces = {{number(pointer), Advice{}}}};
}

cudaError_t allocate_managed(ThreadState& thread, void** pointer, std::size_t size_bytes,
                             unsigned flags) {
  const bool is_known = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost;
  if (pointer == nullptr || size_bytes == 0 || !is_known) return cudaErrorInvalidValue;
  if (current_device(thread) == nullptr) return cudaErrorNoDevice;
  thread.charge(CostId::PointerGetAttributes);
  if (size_bytes > kManagedBytesMax) return cudaErrorMemoryAllocation;
  void* const memory = map_host_pages(size_bytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  add_block(memory, size_bytes, round_up(size_bytes, kManagedPageBytes), thread.device);
  *pointer = memory;
  return cudaSuccess;
}

void unmap(std::uint64_t lo, const ManagedPages& block) {
  if (block.mapped_bytes != 0) munmap(reinterpret_cast<void*>(lo), block.mapped_bytes);
}

// Calls action(Advice&) for the pages of the range, which are set apart from their neighbours.
// False where it is not all of one managed block.
template <typename Action>
bool with_pages(const void* pointer, std::size_t size_bytes, Action action) {
  ManagedMemory& all = managed_memory();
  const std::lock_guard lock(all.mutex);
  const auto block = block_of(number(pointer));
  if (size_bytes == 0 || block == all.blocks.end() ||
      size_bytes > block->second.hi - number(pointer)) {
    return false;
  }
  auto& pieces = block->second.pieces;
  const std::uint64_t lo = round_down(number(pointer), kManagedPageBytes);
  const std::uint64_t hi = round_up(number(pointer) + size_bytes, kManagedPageBytes);
  for (const std::uint64_t cut : {lo, hi}) {
    if (cut < block->second.hi) pieces.emplace(cut, last_up_to(pieces, cut)->second);
  }
  for (auto piece = pieces.find(lo); piece != pieces.end() && piece->first < hi; ++piece) {
    action(piece->second);
  }
  return true;
}

// The error where programs name no place so.
cudaError_t read_place(const cudaMemLocation& location, MemoryPlace& place) {
  place = {.type = location.type};
  switch (location.type) {
    case cudaMemLocationTypeDevice:
      place.id = location.id;
      return device_at(location.id) == nullptr ? cudaErrorInvalidDevice : cudaSuccess;
    case cudaMemLocationTypeHost:
      return cudaSuccess;
    case cudaMemLocationTypeHostNuma:
      place.id = location.id;
      return is_numa_node(location.id) ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemLocationTypeHostNumaCurrent: {
      unsigned node = 0;
      (void)getcpu(nullptr, &node);
      place = {.type = cudaMemLocationTypeHostNuma, .id = static_cast<int>(node)};
      return cudaSuccess;
    }
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t advise(ThreadState& thread, const void* pointer, std::size_t size_bytes, int advice,
                   const cudaMemLocation& location) {
  thread.charge(CostId::PointerGetAttributes);
  const bool sets_place = advice == cudaMemAdviseSetPreferredLocation;
  const bool names_reader =
      advice == cudaMemAdviseSetAccessedBy || advice == cudaMemAdviseUnsetAccessedBy;
  const bool is_known =
      advice >= cudaMemAdviseSetReadMostly && advice <= cudaMemAdviseUnsetAccessedBy;
  MemoryPlace place;
  if (!is_known || ((sets_place || names_reader) && read_place(location, place) != cudaSuccess)) {
    return cudaErrorInvalidValue;
  }
  if (names_reader && place.type == cudaMemLocationTypeHostNuma) return cudaErrorInvalidValue;
  const bool found = with_pages(pointer, size_bytes, [&](Advice& pages) {
    if (advice <= cudaMemAdviseUnsetReadMostly) {
      pages.is_read_mostly = advice == cudaMemAdviseSetReadMostly;
    } else if (!names_reader) {
      pages.preferred = place;
    } else if (advice == cudaMemAdviseSetAccessedBy) {
      pages.accessed_by.insert(place.ordinal());
    } else {
      pages.accessed_by.erase(place.ordinal());
    }
  });
  return found ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t prefetch(ThreadState& thread, const void* pointer, std::size_t size_bytes,
                     const cudaMemLocation& location, unsigned flags, cudaStream_t stream) {
  if (flags != 0) return cudaErrorInvalidValue;
  MemoryPlace place;
  if (const cudaError_t error = read_place(location, place); error != cudaSuccess) return error;
  const StreamRef ref = resolve_stream(thread, stream);
  if (const Captured captured = capture_forbids(ref)) return *captured;
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  thread.charge(CostId::MemsetAsync);
  return with_pages(pointer, size_bytes, [&](Advice& pages) { pages.prefetched = place; })
             ? cudaSuccess
             : cudaErrorInvalidValue;
}

// What pages have in common with others.
void keep_common(Advice& common, const Advice& pages) {
  common.is_read_mostly &= pages.is_read_mostly;
  if (common.preferred != pages.preferred) common.preferred = {};
  if (common.prefetched != pages.prefetched) common.prefetched = {};
  std::erase_if(common.accessed_by,
                [&](int reader) { return !pages.accessed_by.contains(reader); });
}

// The attributes that are one number.
std::optional<int> number_of(const Advice& advice, int attribute) {
  switch (attribute) {
    case cudaMemRangeAttributeReadMostly:
      return advice.is_read_mostly ? 1 : 0;
    case cudaMemRangeAttributePreferredLocation:
      return advice.preferred.ordinal();
    case cudaMemRangeAttributeLastPrefetchLocation:
      return advice.prefetched.ordinal();
    case cudaMemRangeAttributePreferredLocationType:
      return advice.preferred.type;
    case cudaMemRangeAttributePreferredLocationId:
      return advice.preferred.id;
    case cudaMemRangeAttributeLastPrefetchLocationType:
      return advice.prefetched.type;
    case cudaMemRangeAttributeLastPrefetchLocationId:
      return advice.prefetched.id;
    default:
      return std::nullopt;
  }
}

cudaError_t give_attribute(const Advice& advice, void* data, std::size_t data_bytes,
                           int attribute) {
  if (data == nullptr) return cudaErrorInvalidValue;
  if (attribute == cudaMemRangeAttributeAccessedBy) {
    if (data_bytes == 0 || data_bytes % sizeof(int) != 0) return cudaErrorInvalidValue;
    const std::span<int> readers(static_cast<int*>(data), data_bytes / sizeof(int));
    std::ranges::fill(readers, cudaInvalidDeviceId);
    const std::size_t count = std::min(readers.size(), advice.accessed_by.size());
    std::copy_n(advice.accessed_by.begin(), count, readers.begin());
    return cudaSuccess;
  }
  const std::optional<int> value = number_of(advice, attribute);
  if (!value || data_bytes != sizeof(int)) return cudaErrorInvalidValue;
  std::memcpy(data, &*value, sizeof(int));
  return cudaSuccess;
}

// One attribute after the other, as the driver takes them.
struct AttributeQuery {
  void** data = nullptr;
  const std::size_t* data_bytes = nullptr;
  const int* attributes = nullptr;
  std::size_t count = 0;
};

cudaError_t range_attributes(ThreadState& thread, const AttributeQuery& query, const void* pointer,
                             std::size_t size_bytes) {
  thread.charge(CostId::PointerGetAttributes);
  if (query.data == nullptr || query.data_bytes == nullptr || query.attributes == nullptr ||
      query.count == 0) {
    return cudaErrorInvalidValue;
  }
  std::optional<Advice> common;
  const bool found = with_pages(pointer, size_bytes, [&](const Advice& pages) {
    if (!common) common = pages;
    keep_common(*common, pages);
  });
  if (!found) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < query.count; ++i) {
    const cudaError_t error =
        give_attribute(*common, query.data[i], query.data_bytes[i], query.attributes[i]);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t range_attribute(ThreadState& thread, void* data, std::size_t data_bytes, int attribute,
                            const void* pointer, std::size_t size_bytes) {
  return range_attributes(
      thread, {.data = &data, .data_bytes = &data_bytes, .attributes = &attribute, .count = 1},
      pointer, size_bytes);
}

}  // namespace

ManagedBlock managed_block(const void* pointer) {
  ManagedMemory& all = managed_memory();
  const std::lock_guard lock(all.mutex);
  const auto found = block_of(number(pointer));
  if (found == all.blocks.end()) return {};
  return {.range = {found->first, found->second.hi}, .device = found->second.device};
}

void adopt_managed(const void* pointer, std::size_t size_bytes, int device) {
  add_block(pointer, size_bytes, 0, device);
}

bool free_managed(void* pointer) {
  ManagedMemory& all = managed_memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(number(pointer));
  if (found == all.blocks.end()) return false;
  unmap(found->first, found->second);
  all.blocks.erase(found);
  return true;
}

void forget_managed_memory(int device) {
  ManagedMemory& all = managed_memory();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.blocks, [&](const auto& block) {
    if (block.second.device != device || block.second.mapped_bytes == 0) return false;
    unmap(block.first, block.second);
    return true;
  });
}

SIMCUDA_EXPORT cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes,
                                             unsigned int flags) {
  return runtime_call<"cudaMallocManaged">({size_bytes, flags}, [&](ThreadState& thread) {
    if (size_bytes == 0 && pointer != nullptr) {
      *pointer = nullptr;
      return cudaSuccess;  // whatever the flags: the driver is not asked
    }
    return allocate_managed(thread, pointer, size_bytes, flags);
  });
}
SIMCUDA_DRIVER(cuMemAllocManaged, (CUdeviceptr * pointer, size_t size_bytes, unsigned int flags),
               (size_bytes, flags),
               allocate_managed(thread, reinterpret_cast<void**>(pointer), size_bytes, flags))

SIMCUDA_PAIR(cudaMemRangeGetAttribute,
             (void* data, size_t data_bytes, cudaMemRangeAttribute attribute, const void* pointer,
              size_t size_bytes),
             cuMemRangeGetAttribute,
             (void* data, size_t data_bytes, CUmem_range_attribute attribute, CUdeviceptr pointer,
              size_t size_bytes),
             (as_number(attribute), number(pointer), size_bytes),
             range_attribute(thread, data, data_bytes, attribute, as_runtime<const void*>(pointer),
                             size_bytes))
SIMCUDA_PAIR(cudaMemRangeGetAttributes,
             (void** data, size_t* data_bytes, cudaMemRangeAttribute* attributes, size_t count,
              const void* pointer, size_t size_bytes),
             cuMemRangeGetAttributes,
             (void** data, size_t* data_bytes, CUmem_range_attribute* attributes, size_t count,
              CUdeviceptr pointer, size_t size_bytes),
             (count, number(pointer), size_bytes),
             range_attributes(thread,
                              {.data = data,
                               .data_bytes = data_bytes,
                               .attributes = as_runtime<const int*>(attributes),
                               .count = count},
                              as_runtime<const void*>(pointer), size_bytes))

// CUDA 12 has other arguments under these names.
#if CUDART_VERSION >= 13000
SIMCUDA_PAIR(cudaMemPrefetchAsync,
             (const void* pointer, size_t size_bytes, cudaMemLocation location, unsigned int flags,
              cudaStream_t stream),
             cuMemPrefetchAsync,
             (CUdeviceptr pointer, size_t size_bytes, CUmemLocation location, unsigned int flags,
              CUstream stream),
             (number(pointer), size_bytes, number(stream)),
             prefetch(thread, as_runtime<const void*>(pointer), size_bytes,
                      as_runtime<cudaMemLocation>(location), flags, stream))
SIMCUDA_PAIR(cudaMemAdvise,
             (const void* pointer, size_t size_bytes, cudaMemoryAdvise advice,
              cudaMemLocation location),
             cuMemAdvise,
             (CUdeviceptr pointer, size_t size_bytes, CUmem_advise advice, CUmemLocation location),
             (number(pointer), size_bytes, as_number(advice)),
             advise(thread, as_runtime<const void*>(pointer), size_bytes, advice,
                    as_runtime<cudaMemLocation>(location)))
#endif

}  // namespace simcuda
