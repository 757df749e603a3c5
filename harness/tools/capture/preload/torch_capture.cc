// Listens to PyTorch's own allocator and hands what it hears to the capture library. Built against
// the headers of one PyTorch, without linking more of it than c10. The callback runs under the
// allocator's lock, so it calls nothing of PyTorch.
#include <c10/cuda/CUDACachingAllocator.h>

#include <unwind.h>

#include <cstring>
#include <exception>

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
    case Entry::SEGMENT_FREE:
    case Entry::SEGMENT_UNMAP:
      return kAllocmarkCaptureSegmentReturned;
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
bool is_in_pool(const Entry& entry) {
  if constexpr (requires { entry.mempool_; }) {
    return entry.mempool_.first != 0 || entry.mempool_.second != 0;
  } else {
    return false;
  }
}

// Where the allocator's emptyCache begins, read from its table of virtual functions.
const void* empty_cache = nullptr;

const void* find_empty_cache(allocator::CUDAAllocator* from) {
  const auto member = &allocator::CUDAAllocator::emptyCache;
  intptr_t words[2] = {};  // an offset in the table; one bit of one of the words says so
  static_assert(sizeof member == sizeof words);
  std::memcpy(words, &member, sizeof words);
  const char* const table = *reinterpret_cast<const char* const*>(from);
  if ((words[0] & 1) != 0) return *reinterpret_cast<const void* const*>(table + words[0] - 1);
  if ((words[1] & 1) != 0) return *reinterpret_cast<const void* const*>(table + words[0]);
  return nullptr;
}

struct Walk {
  int frames_left = 12;
  bool found = false;
};

_Unwind_Reason_Code look_at_frame(_Unwind_Context* frame, void* data) {
  Walk* const walk = static_cast<Walk*>(data);
  void* const place = reinterpret_cast<void*>(_Unwind_GetIP(frame) - 1);
  walk->found = _Unwind_FindEnclosingFunction(place) == empty_cache;
  return walk->found || --walk->frames_left == 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// Whether the program asked for the cache to be emptied. Requests that lack memory give segments
// back as well, and their entries look the same. The driver's call takes longer than this walk.
bool is_in_empty_cache() {
  Walk walk;
  _Unwind_Backtrace(look_at_frame, &walk);
  return walk.found;
}

void hear(const allocator::TraceEntry& entry) {
  if (is_synthetic(entry)) return;
  const int action = action_of(entry.action_);
  const AllocmarkCaptureEntry heard = {
      .action = action,
      .device = entry.device_,
      .address = static_cast<uint64_t>(entry.addr_),
      .size_bytes = entry.size_,
      .stream = reinterpret_cast<uint64_t>(entry.stream_),
      .in_pool = is_in_pool(entry) ? 1 : 0,
      .in_empty_cache = action == kAllocmarkCaptureSegmentReturned && is_in_empty_cache() ? 1 : 0,
  };
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
          .in_pool = 0,
          .in_empty_cache = 0,
      };
      if (block.allocated) sink->live(&live);
      address += block.size;
    }
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int allocmark_torch_capture_attach(
    const AllocmarkCaptureSink* to) {
  allocator::CUDAAllocator* const from = allocator::allocator.load();
  if (from == nullptr || !from->initialized()) return kAllocmarkCaptureNotReady;
  try {
    if (from->name() != "native") return kAllocmarkCaptureOtherBackend;
    sink = to;
    empty_cache = find_empty_cache(from);
    from->attachAllocatorTraceTracker(hear);
    tell_live_blocks(from);
  } catch (const std::exception&) {
    return kAllocmarkCaptureOtherBackend;
  }
  return kAllocmarkCaptureAttached;
}
