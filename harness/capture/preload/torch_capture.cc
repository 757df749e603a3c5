// Listens to PyTorch's own allocator and hands what it hears to the capture library. Built against
// the headers of one PyTorch, without linking more of it than c10. The callback runs under the
// allocator's lock, so it calls nothing of PyTorch.
#include <c10/cuda/CUDACachingAllocator.h>

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
    case Entry::SEGMENT_ALLOC:
    case Entry::SEGMENT_MAP:
      return kAllocmarkCaptureSegmentTaken;
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

void hear(const allocator::TraceEntry& entry) {
  if (is_synthetic(entry)) return;
  const AllocmarkCaptureEntry heard = {
      .action = action_of(entry.action_),
      .device = entry.device_,
      .address = static_cast<uint64_t>(entry.addr_),
      .size_bytes = entry.size_,
      .stream = reinterpret_cast<uint64_t>(entry.stream_),
      .in_pool = is_in_pool(entry) ? 1 : 0,
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
    from->attachAllocatorTraceTracker(hear);
    tell_live_blocks(from);
  } catch (const std::exception&) {
    return kAllocmarkCaptureOtherBackend;
  }
  return kAllocmarkCaptureAttached;
}
