// c10's functions of private pools, as the plugin's interface has them.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include "allocators/plugins/torch_plugin/plugin.h"

namespace allocmark_torch {

namespace allocator = c10::cuda::CUDACachingAllocator;

// Before 2.11 pools cannot refuse to split, and before 2.10 use on OOM cannot be turned off.
template <typename Allocator>
void set_no_split(Allocator& one, c10::DeviceIndex device, c10::MempoolId_t id) {
  if constexpr (requires { one.setNoSplit(device, id); }) {
    one.setNoSplit(device, id);
  } else {
    throw std::runtime_error("setNoSplit is missing in PyTorch " ALLOCMARK_TORCH_VERSION);
  }
}
template <typename Allocator>
void set_use_on_oom(Allocator& one, c10::DeviceIndex device, c10::MempoolId_t id, bool on) {
  if constexpr (requires { one.setUseOnOOM(device, id, on); }) {
    one.setUseOnOOM(device, id, on);
  } else {
    throw std::runtime_error("setUseOnOOM is missing in PyTorch " ALLOCMARK_TORCH_VERSION);
  }
}

// Up to 2.12 the allocator is not told of a capture: it takes routing for one.
template <typename Allocator>
constexpr bool kMarksCaptures = requires(Allocator& one) {
  one.markCaptureBegin(0);
};

template <typename Allocator>
void mark_capture(Allocator& one, c10::DeviceIndex device, bool begins) {
  if constexpr (kMarksCaptures<Allocator>)
    begins ? one.markCaptureBegin(device) : one.markCaptureEnd(device);
}

// Streams of the replay that a graph is captured on.
inline std::vector<cudaStream_t> captured;

// One call in a capture: c10 asks whether the current stream is captured. The stream is one of our
// own and captured for this call alone, because the replay's kernels and waits are to go on.
class CapturedCall {
 public:
  explicit CapturedCall(bool captures) : captures_(captures) {
    if (!captures_) return;
    const c10::DeviceIndex device = c10::cuda::current_device();
    before_ = c10::cuda::getCurrentCUDAStream(device);
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(stream_, device));
    (void)cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
  }
  ~CapturedCall() {
    if (!captures_) return;
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    c10::cuda::setCurrentCUDAStream(*before_);
  }
  CapturedCall(const CapturedCall&) = delete;
  CapturedCall& operator=(const CapturedCall&) = delete;

  // A request is of its own stream, everything else of the one that is captured.
  [[nodiscard]] static bool of_request(cudaStream_t stream) {
    return kMarks && std::find(captured.begin(), captured.end(), stream) != captured.end();
  }
  [[nodiscard]] static bool of_other() { return kMarks && !captured.empty(); }
  // Before the first capture, since a stream may take a page of the device.
  static void make_stream() {
    if (kMarks && stream_ == nullptr)
      (void)cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  }

 private:
  static constexpr bool kMarks = kMarksCaptures<allocator::CUDAAllocator>;
  inline static cudaStream_t stream_ = nullptr;
  bool captures_;
  std::optional<c10::cuda::CUDAStream> before_;
};

inline void* raw_alloc(std::size_t size_bytes, cudaStream_t stream) {
  const CapturedCall call(CapturedCall::of_request(stream));
  return allocator::raw_alloc_with_stream(size_bytes, stream);
}
inline void raw_delete(void* pointer) {
  const CapturedCall call(CapturedCall::of_other());
  allocator::raw_delete(pointer);
}
inline void empty_cache() {
  const CapturedCall call(CapturedCall::of_other());
  allocator::emptyCache();
}

// What close() has to undo.
struct PoolUse {
  int count = 0;
  bool begun = false;
  bool captures = false;
  bool on_oom = false;
};
inline std::map<std::uint64_t, PoolUse> pools;

// c10 may keep a pool that was released, so each open() has ids of its own.
inline std::uint64_t id_base = 0;
inline c10::MempoolId_t id_of(std::uint64_t number) { return {0, id_base + number}; }
// 0 where it is no pool of this open().
inline std::uint64_t number_of(const c10::MempoolId_t& id) {
  return id.second > id_base ? id.second - id_base : 0;
}

inline void begin_pool(c10::DeviceIndex device, c10::MempoolId_t id, cudaStream_t stream,
                       bool all) {
  allocator::get()->beginAllocateToPool(
      device, id, [stream, all](cudaStream_t asked) { return all || asked == stream; });
}

// One AllocmarkPluginPoolAction. Throws what c10 throws.
inline void call_pool(int action, std::uint64_t number, void* stream, bool flag) {
  const c10::DeviceIndex device = c10::cuda::current_device();
  const c10::MempoolId_t id = id_of(number);
  const CapturedCall call(CapturedCall::of_other());
  PoolUse& use = pools[number];
  switch (action) {
    case kAllocmarkPluginPoolCreate:
      allocator::get()->createOrIncrefPool(device, id);
      ++use.count;
      return;
    case kAllocmarkPluginPoolBegin:
      begin_pool(device, id, static_cast<cudaStream_t>(stream), flag);
      ++use.count;
      use.begun = true;
      return;
    case kAllocmarkPluginPoolEnd:
      allocator::get()->endAllocateToPool(device, id);
      use.begun = false;
      return;
    case kAllocmarkPluginPoolRelease:
      allocator::get()->releasePool(device, id);
      --use.count;
      return;
    case kAllocmarkPluginPoolUseOnOom:
      set_use_on_oom(*allocator::get(), device, id, flag);
      use.on_oom = flag;
      return;
    case kAllocmarkPluginPoolNoSplit:
      set_no_split(*allocator::get(), device, id);
      return;
    case kAllocmarkPluginPoolCaptureBegin:
      CapturedCall::make_stream();
      captured.push_back(static_cast<cudaStream_t>(stream));
      use.captures = true;
      mark_capture(*allocator::get(), device, true);
      return;
    case kAllocmarkPluginPoolCaptureEnd:
      captured.erase(std::remove(captured.begin(), captured.end(), stream), captured.end());
      use.captures = false;
      mark_capture(*allocator::get(), device, false);
      return;
    default:
      allocator::emptyCache(id);
  }
}

// add(pool, array) for what each pool has reserved, which c10 counts since 2.13.
template <typename Stats, typename Add>
void for_each_reserved(const Stats& stats, Add add) {
  if constexpr (requires { stats.reserved_bytes_by_private_pools; }) {
    for (const auto& [id, array] : stats.reserved_bytes_by_private_pools) {
      if (number_of(id) != 0) add(number_of(id), array);
    }
  }
}

// c10 keeps pools as long as the process.
inline void end_pools() {
  const c10::DeviceIndex device = c10::cuda::current_device();
  captured.clear();
  for (const auto& [number, use] : pools) {
    const c10::MempoolId_t id = id_of(number);
    if (use.captures) mark_capture(*allocator::get(), device, false);
    if (use.begun) allocator::get()->endAllocateToPool(device, id);
    if (use.on_oom) set_use_on_oom(*allocator::get(), device, id, false);
    for (int i = 0; i < use.count; ++i) allocator::get()->releasePool(device, id);
  }
  if (!pools.empty()) id_base += pools.rbegin()->first;
  pools.clear();
}

}  // namespace allocmark_torch
