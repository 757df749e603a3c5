// Listens to PyTorch's own allocator and hands what it hears to the capture library. Built against
// the headers of one PyTorch, without linking more of it than c10. The callback runs under the
// allocator's lock, so it calls nothing of PyTorch. Pools are in no history: their calls are heard
// by standing before the allocator's virtual functions.
#include <c10/cuda/CUDACachingAllocator.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "capture.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

const AllocmarkCaptureSink* sink = nullptr;

int action_of(allocator::TraceEntry::Action action) {
  using Entry = allocator::TraceEntry;
  switch (action) {
    case Entry::ALLOC:
      return kAllocmarkCaptureAlloc;
    case Entry::FREE_REQUESTED:
      return kAllocmarkCaptureFreeRequested;
    case Entry::FREE_COMPLETED:
      return kAllocmarkCaptureFreeCompleted;
    case Entry::OOM:
      return kAllocmarkCaptureOutOfMemory;
    default:
      return kAllocmarkCaptureOther;
  }
}

// A pair of entries that the allocator makes for itself is no request of the program.
template <class Entry>
bool is_synthetic(const Entry& entry) {
  if constexpr (requires { entry.internal_metadata_; }) {
    return entry.internal_metadata_ == "mallocWithAddress";
  } else {
    return false;
  }
}

template <class Entry>
void tell_pool(const Entry& entry, AllocmarkCaptureEntry& heard) {
  if constexpr (requires { entry.mempool_; }) {
    heard.pool[0] = entry.mempool_.first;
    heard.pool[1] = entry.mempool_.second;
    heard.knows_pool = 1;
  }
}

// What a call says of its pool, from its arguments.
void read(AllocmarkCapturePoolCall& call, c10::DeviceIndex device) { call.device = device; }
void read(AllocmarkCapturePoolCall& call, const c10::MempoolId_t& id) {
  call.pool[0] = id.first;
  call.pool[1] = id.second;
}
void read(AllocmarkCapturePoolCall& call, bool is_on) { call.is_on = is_on ? 1 : 0; }
template <class Other>
void read(AllocmarkCapturePoolCall&, const Other&) {}

// Stands before one virtual function of the allocator, and tells the call once it has returned.
template <class Member>
struct Hook;
template <class Class, class... Arguments>
struct Hook<void (Class::*)(Arguments...)> {
  using Function = void (*)(void*, Arguments...);
  template <int action>
  static void call(void* self, Arguments... arguments) {
    AllocmarkCapturePoolCall told = {.action = action, .device = -1, .pool = {0, 0}, .is_on = 1};
    (read(told, arguments), ...);
    real<action>(self, std::forward<Arguments>(arguments)...);
    sink->pool(&told);
  }
  template <int action>
  static inline Function real = nullptr;
};

// The function's place in the allocator's table of virtual functions; null where it is not there.
template <class Member>
void** slot_of(allocator::CUDAAllocator* from, Member member) {
  intptr_t words[2] = {};  // an offset in the table; one bit of one of the words says so
  static_assert(sizeof member == sizeof words);
  std::memcpy(words, &member, sizeof words);
  char* const table = *reinterpret_cast<char**>(from);
  if ((words[0] & 1) != 0) return reinterpret_cast<void**>(table + words[0] - 1);
  if ((words[1] & 1) != 0) return reinterpret_cast<void**>(table + words[0]);
  return nullptr;
}

// The table is read-only from the program's start on, and stays writable from here on.
template <int action, class Member>
bool stand_before(allocator::CUDAAllocator* from, Member member) {
  using Before = Hook<Member>;
  void** const slot = slot_of(from, member);
  if (slot == nullptr) return false;
  const uintptr_t page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t page = reinterpret_cast<uintptr_t>(slot) & ~(page_bytes - 1);
  if (mprotect(reinterpret_cast<void*>(page), page_bytes, PROT_READ | PROT_WRITE) != 0)
    return false;
  Before::template real<action> = reinterpret_cast<typename Before::Function>(*slot);
  __atomic_store_n(slot, reinterpret_cast<void*>(&Before::template call<action>), __ATOMIC_RELEASE);
  return true;
}

// Releases lack some of these functions, and had another name for one.
template <class Allocator>
bool hear_pools(Allocator* from) {
  bool heard = stand_before<kAllocmarkCapturePoolEmpty>(from, &Allocator::emptyCache) &&
               stand_before<kAllocmarkCapturePoolBegin>(from, &Allocator::beginAllocateToPool) &&
               stand_before<kAllocmarkCapturePoolEnd>(from, &Allocator::endAllocateToPool) &&
               stand_before<kAllocmarkCapturePoolRelease>(from, &Allocator::releasePool);
  if constexpr (requires { &Allocator::createOrIncrefPool; }) {
    heard &= stand_before<kAllocmarkCapturePoolCreate>(from, &Allocator::createOrIncrefPool);
  } else if constexpr (requires { &Allocator::ensureExistsAndIncrefPool; }) {
    heard &= stand_before<kAllocmarkCapturePoolCreate>(from, &Allocator::ensureExistsAndIncrefPool);
  }
  if constexpr (requires { &Allocator::setUseOnOOM; })
    heard &= stand_before<kAllocmarkCapturePoolUseOnOom>(from, &Allocator::setUseOnOOM);
  if constexpr (requires { &Allocator::setNoSplit; })
    heard &= stand_before<kAllocmarkCapturePoolNoSplit>(from, &Allocator::setNoSplit);
  return heard;
}

void hear(const allocator::TraceEntry& entry) {
  if (is_synthetic(entry)) return;
  AllocmarkCaptureEntry heard = {
      .action = action_of(entry.action_),
      .device = entry.device_,
      .address = static_cast<uint64_t>(entry.addr_),
      .size_bytes = entry.size_,
      .stream = reinterpret_cast<uint64_t>(entry.stream_),
      .pool = {0, 0},
      .knows_pool = 0,
  };
  tell_pool(entry, heard);
  sink->entry(&heard);
}

// The history is not wanted; older versions always give it.
template <class Allocator>
auto segments_of(Allocator* from) {
  if constexpr (requires { from->snapshot({0, 0}, false); }) {
    return from->snapshot({0, 0}, false).segments;
  } else {
    return from->snapshot().segments;
  }
}

void tell_live_blocks(allocator::CUDAAllocator* from) {
  for (const auto& segment : segments_of(from)) {
    uint64_t address = segment.address;
    for (const auto& block : segment.blocks) {
      const AllocmarkCaptureEntry live = {
          .action = kAllocmarkCaptureAlloc,
          .device = segment.device,
          .address = address,
          .size_bytes = block.requested_size,
          .stream = reinterpret_cast<uint64_t>(segment.stream),
          .pool = {segment.owner_private_pool_id.first, segment.owner_private_pool_id.second},
          .knows_pool = 1,
      };
      if (block.allocated) sink->live(&live);
      address += block.size;
    }
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int allocmark_torch_capture_attach_2(
    const AllocmarkCaptureSink* to) {
  allocator::CUDAAllocator* const from = allocator::allocator.load();
  if (from == nullptr || !from->initialized()) return kAllocmarkCaptureNotReady;
  bool hears_pools = false;
  try {
    if (from->name() != "native") return kAllocmarkCaptureOtherBackend;
    sink = to;
    from->attachAllocatorTraceTracker(hear);
    hears_pools = hear_pools(from);
    tell_live_blocks(from);
  } catch (const std::exception&) {
    return kAllocmarkCaptureOtherBackend;
  }
  return hears_pools ? kAllocmarkCaptureAttached : kAllocmarkCaptureWithoutPools;
}
