// Pinned host memory. In: sizes, host pointers. Out: ordinary host memory, remembered so that
// cudaPointerGetAttributes and cudaFreeHost know it.
#include "harness/simcuda/shim/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "harness/simcuda/core/pinned_blocks.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/charge_pinning.h"
#include "harness/simcuda/shim/host_pools.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct HostRange {
  std::uint64_t hi = 0;
  unsigned flags = 0;
  int device = 0;           // in whose context it was pinned
  bool is_ours = false;     // from cudaMallocHost; false: registered by the program
  std::uint64_t place = 0;  // of what is ours, among its device's blocks
};

// Blocks of that size are mapped, because nobody touches all of one. A sanitizer's malloc would: it
// writes an eighth of the size to its shadow, at the allocation and again at the free.
constexpr std::size_t kMappedBytesMin = std::size_t{1} << 20;
constexpr std::size_t kPinnedAlignmentBytes = 4096;

void* new_pages(std::size_t size_bytes) {
  const std::size_t page_bytes = round_up(size_bytes, kPinnedAlignmentBytes);
  return page_bytes >= kMappedBytesMin ? map_host_pages(page_bytes)
                                       : std::aligned_alloc(kPinnedAlignmentBytes, page_bytes);
}

void delete_pages(void* pages, std::size_t size_bytes) {
  const std::size_t page_bytes = round_up(size_bytes, kPinnedAlignmentBytes);
  page_bytes >= kMappedBytesMin ? static_cast<void>(munmap(pages, page_bytes)) : std::free(pages);
}

struct HostMemory {
  std::mutex mutex;
  std::map<std::uint64_t, HostRange> ranges;  // by lo
  // Which blocks share slabs, by device. Their places are numbers: each block has pages of its own.
  std::map<int, PinnedBlocks> blocks;
  std::uint64_t place_next = kChunkBytes;
};
HostMemory& host_memory() { return made_once<HostMemory>(); }

// What is served by a slab that exists, or stays, costs what a profile has for small blocks.
constexpr std::uint64_t kServedBytesMax = std::uint64_t{1} << 20;

void charge_block(ThreadState& thread, PinCall call, std::uint64_t size_bytes,
                  std::uint64_t moved_bytes) {
  if (moved_bytes != 0) return charge_pinning(thread, call, pinning_ns(call, moved_bytes));
  const CostId cost = call == PinCall::Allocate ? CostId::MallocHost : CostId::FreeHost;
  thread.charge(cost, std::min(size_bytes, kServedBytesMax));
}

// Notes a new block of ours and charges it; `all` is locked.
void add_block(ThreadState& thread, HostMemory& all, const void* memory, HostRange range) {
  const std::uint64_t size_bytes = range.hi - number(memory);
  PinnedBlocks& blocks = all.blocks[range.device];
  const std::uint64_t missing_bytes = blocks.missing_bytes(size_bytes);
  range.place = blocks.place(size_bytes, all.place_next);
  all.place_next += missing_bytes;
  all.ranges[number(memory)] = range;
  charge_block(thread, PinCall::Allocate, size_bytes, missing_bytes);
}

// Pinned memory is resident, so there is as much of it as the host has memory. False where the host
// has no more.
bool take_of_host(int device, std::uint64_t size_bytes) {
  SimulatedDevice* const found = device_at(device);
  if (found == nullptr) return true;
  const std::lock_guard lock(found->mutex);
  return found->core.take_pinned(size_bytes);
}

void return_to_host(int device, std::uint64_t size_bytes) {
  SimulatedDevice* const found = device_at(device);
  if (found == nullptr) return;
  const std::lock_guard lock(found->mutex);
  found->core.return_pinned(size_bytes);
}

// The range that begins there is pinned no longer; what is ours is gone. False where there is none
// of that kind.
bool forget_range(ThreadState& thread, const void* pointer, bool is_ours) {
  HostMemory& all = host_memory();
  std::unique_lock lock(all.mutex);
  const auto found = all.ranges.find(number(pointer));
  if (found == all.ranges.end() || found->second.is_ours != is_ours) return false;
  const std::uint64_t size_bytes = found->second.hi - found->first;
  const int device = found->second.device;
  if (is_ours) {
    const Range unpinned = all.blocks[device].remove(found->second.place);
    charge_block(thread, PinCall::Free, size_bytes, unpinned.size_bytes());
  } else {
    charge_pinning(thread, PinCall::Unregister, pinning_ns(PinCall::Unregister, size_bytes));
  }
  all.ranges.erase(found);
  lock.unlock();
  return_to_host(device, size_bytes);
  if (is_ours) delete_pages(const_cast<void*>(pointer), size_bytes);
  return true;
}

cudaError_t allocate_host(ThreadState& thread, void** pointer, std::size_t size_bytes,
                          unsigned flags) {
  constexpr unsigned kKnownFlags =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (pointer == nullptr || (flags & ~kKnownFlags) != 0) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (size_bytes == 0) {
    thread.charge(CostId::MallocHost);
    return cudaSuccess;
  }
  const bool is_taken =
      size_bytes <= (std::size_t{1} << 46) && take_of_host(thread.device, size_bytes);
  void* const memory = is_taken ? new_pages(size_bytes) : nullptr;
  if (memory == nullptr) {
    if (is_taken) return_to_host(thread.device, size_bytes);
    thread.charge(CostId::MallocHost);
    return cudaErrorMemoryAllocation;
  }
  HostMemory& all = host_memory();
  const std::lock_guard lock(all.mutex);
  add_block(thread, all, memory,
            {.hi = number(memory) + size_bytes,
             .flags = flags,
             .device = thread.device,
             .is_ours = true});
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t free_host(ThreadState& thread, void* pointer) {
  return pointer == nullptr || forget_range(thread, pointer, true) ? cudaSuccess
                                                                   : cudaErrorInvalidValue;
}

// Bytes of the range that the process has already.
std::uint64_t touched_bytes(const void* begin, std::uint64_t size_bytes) {
  constexpr std::uint64_t kHostPageBytes = 4096;
  const Range pages = {round_down(number(begin), kHostPageBytes),
                       round_up(number(begin) + size_bytes, kHostPageBytes)};
  std::vector<unsigned char> here(pages.size_bytes() / kHostPageBytes);
  if (mincore(reinterpret_cast<void*>(pages.lo), pages.size_bytes(), here.data()) != 0) return 0;
  const auto count =
      std::ranges::count_if(here, [](unsigned char page) { return (page & 1) != 0; });
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(count) * kHostPageBytes, size_bytes);
}

// Pages that the process has already are pinned quickly.
void charge_registering(ThreadState& thread, const void* begin, std::uint64_t size_bytes) {
  const std::uint64_t touched = touched_bytes(begin, size_bytes);
  const std::uint64_t all_ns = pinning_ns(PinCall::Register, size_bytes);
  const std::uint64_t least_ns = pinning_ns(PinCall::RegisterTouched, size_bytes);
  const std::uint64_t spared_ns = (all_ns - least_ns) / 1024 * (touched * 1024 / size_bytes);
  charge_pinning(thread, PinCall::Register, all_ns - spared_ns);
}

cudaError_t register_host(ThreadState& thread, void* pointer, std::size_t size_bytes,
                          unsigned flags) {
  if (pointer == nullptr || size_bytes == 0) return cudaErrorInvalidValue;
  charge_registering(thread, pointer, size_bytes);
  if (host_allocation(pointer).lo != 0) return cudaErrorHostMemoryAlreadyRegistered;
  if (!take_of_host(thread.device, size_bytes)) return cudaErrorMemoryAllocation;
  HostMemory& all = host_memory();
  const std::lock_guard lock(all.mutex);
  all.ranges[number(pointer)] = {
      .hi = number(pointer) + size_bytes, .flags = flags, .device = thread.device};
  return cudaSuccess;
}

cudaError_t unregister_host(ThreadState& thread, void* pointer) {
  return forget_range(thread, pointer, false) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}

cudaError_t host_flags(unsigned* flags, const void* pointer) {
  const Range range = host_allocation(pointer);
  HostMemory& all = host_memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.ranges.find(range.lo);
  if (flags == nullptr || found == all.ranges.end()) return cudaErrorInvalidValue;
  *flags = found->second.flags;
  return cudaSuccess;
}

cudaError_t device_pointer_of(void** device_pointer, void* pointer, unsigned flags) {
  if (device_pointer == nullptr || flags != 0 || host_allocation(pointer).lo == 0) {
    return cudaErrorInvalidValue;
  }
  *device_pointer = pointer;
  return cudaSuccess;
}

}  // namespace

Range host_allocation(const void* pointer) {
  HostMemory& all = host_memory();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = last_up_to(all.ranges, number(pointer));
    if (found != all.ranges.end() && number(pointer) < found->second.hi) {
      return {found->first, found->second.hi};
    }
  }
  const Range pooled = host_pool_block(pointer);
  return pooled.lo != 0 ? pooled : managed_block(pointer).range;
}

Range pinned_range(const void* pointer) {
  return managed_block(pointer).range.lo != 0 ? Range{} : host_allocation(pointer);
}

void* map_host_pages(std::size_t size_bytes) {
  void* const memory =
      mmap(nullptr, round_up(size_bytes, kPinnedAlignmentBytes), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

std::uint64_t host_total_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

bool is_numa_node(int node) {
  return node == 0 || (node > 0 && std::filesystem::exists("/sys/devices/system/node/node" +
                                                           std::to_string(node)));
}

std::uint64_t forget_host_memory(int device) {
  HostMemory& all = host_memory();
  const std::lock_guard lock(all.mutex);
  std::uint64_t size_bytes = 0;
  all.blocks.erase(device);
  std::erase_if(all.ranges, [&](const auto& range) {
    if (range.second.device != device) return false;
    const std::uint64_t range_bytes = range.second.hi - range.first;
    size_bytes += range_bytes;
    if (range.second.is_ours) delete_pages(reinterpret_cast<void*>(range.first), range_bytes);
    return true;
  });
  return size_bytes;
}

SIMCUDA_TWINS(cudaMallocHost, cuMemAllocHost, (void** pointer, size_t size_bytes), (size_bytes),
              allocate_host(thread, pointer, size_bytes, 0))
SIMCUDA_TWINS(cudaHostAlloc, cuMemHostAlloc,
              (void** pointer, size_t size_bytes, unsigned int flags), (size_bytes, flags),
              allocate_host(thread, pointer, size_bytes, flags))
SIMCUDA_TWINS(cudaFreeHost, cuMemFreeHost, (void* pointer), (number(pointer)),
              free_host(thread, pointer))
SIMCUDA_TWINS(cudaHostRegister, cuMemHostRegister,
              (void* pointer, size_t size_bytes, unsigned int flags),
              (number(pointer), size_bytes, flags),
              register_host(thread, pointer, size_bytes, flags))
SIMCUDA_TWINS(cudaHostUnregister, cuMemHostUnregister, (void* pointer), (number(pointer)),
              unregister_host(thread, pointer))
SIMCUDA_TWINS(cudaHostGetFlags, cuMemHostGetFlags, (unsigned int* flags, void* pointer),
              (number(pointer)), host_flags(flags, pointer))

SIMCUDA_PAIR(cudaHostGetDevicePointer, (void** device_pointer, void* pointer, unsigned int flags),
             cuMemHostGetDevicePointer,
             (CUdeviceptr * device_pointer, void* pointer, unsigned int flags),
             (number(pointer), flags),
             device_pointer_of(as_runtime<void**>(device_pointer), pointer, flags))

}  // namespace simcuda
