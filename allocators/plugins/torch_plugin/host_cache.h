// PyTorch's own cache of pinned host memory: the template of ATen/core/CachingHostAllocator.h,
// whole and unchanged, with the machine of the caller where libtorch_cuda has CUDA. What
// libtorch_cuda adds of its own (the reserved segment, the choice of cudaHostRegister, no query in
// a capture) is done here as its CachingHostAllocator.cpp does it.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/Stream.h>
#include <c10/core/thread_pool.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/util/flat_hash_map.h>
#include <c10/util/llvmMathExtras.h>
#if __has_include(<c10/core/RingBuffer.h>)
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/RingBuffer.h>
#include <c10/util/ApproximateClock.h>
#endif

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <iostream>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocators/plugins/torch_plugin/host_plugin.h"

// A pass of the background thread is a private function of the template.
#define private public
#define protected public
#include <ATen/core/CachingHostAllocator.h>
#undef private
#undef protected

namespace at {
struct PinnedReserveSegment;  // since 2.10
}

namespace allocmark_torch {

struct HostStream {
  explicit HostStream(std::uint64_t number) : id(number) {}
  explicit HostStream(c10::Stream stream) : id(static_cast<std::uint64_t>(stream.id())) {}
  operator c10::Stream() const {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, 0),
                       static_cast<c10::StreamId>(id));
  }
  bool operator==(const HostStream& other) const { return id == other.id; }

  std::uint64_t id;
};

// An event of the machine, destroyed with its owner.
class HostEvent {
 public:
  HostEvent(const AllocmarkHostMachine& machine, std::uint64_t event)
      : machine_(&machine), event_(event) {}
  HostEvent(HostEvent&& other) noexcept
      : machine_(other.machine_), event_(std::exchange(other.event_, 0)) {}
  HostEvent& operator=(HostEvent&& other) noexcept {
    std::swap(machine_, other.machine_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~HostEvent() {
    if (event_ != 0) machine_->destroy_event(machine_->context, event_);
  }
  [[nodiscard]] bool done() const { return machine_->event_done(machine_->context, event_) != 0; }

 private:
  const AllocmarkHostMachine* machine_;
  std::uint64_t event_;
};

// Of 2.9, which reserves nothing.
struct NoReserveSegment {
  NoReserveSegment() = default;
  NoReserveSegment(void* /*first*/, std::size_t /*size_bytes*/) {}
  [[nodiscard]] bool initialized() const { return false; }
  void* allocate(std::size_t /*size_bytes*/) { return nullptr; }
  [[nodiscard]] bool owns(const void* /*pointer*/) const { return false; }
};

template <typename Own>
struct ReserveSegmentOf {
  using Type = NoReserveSegment;
};
template <typename Own>
requires(sizeof(Own) > 0) struct ReserveSegmentOf<Own> {
  using Type = Own;
};
using ReserveSegment = ReserveSegmentOf<at::PinnedReserveSegment>::Type;

}  // namespace allocmark_torch

template <>
struct std::hash<allocmark_torch::HostStream> {
  using hash_policy = ska::power_of_two_hash_policy;
  std::size_t operator()(const allocmark_torch::HostStream& stream) const { return stream.id; }
};

namespace allocmark_torch {

class HostCacheImpl final : public at::CachingHostAllocatorImpl<HostStream, HostEvent> {
 public:
  using Block = at::HostBlock<HostStream>;
  using Config = c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;

  explicit HostCacheImpl(const AllocmarkHostMachine& machine) : machine_(machine) {
    // The only thread of the pool waits for ever, so that passes happen when the caller says so.
    getBackgroundThreadPool()->run([] { std::promise<void>().get_future().wait(); });
  }

  // Only where a request has started the thread.
  void background_pass() {
    if (has_background_thread_) process_default(*this);
  }

  void set_capturing(bool on) { is_capturing_ = on; }
  // A request that finds no free block starts the thread before it asks for memory.
  void note_slow_request() { has_background_thread_ |= pinned_use_background_threads(); }

  void allocate_host_memory(std::size_t size_bytes, void** pointer) override {
    note_slow_request();
    if (reserve_segment().initialized()) {
      *pointer = reserve_segment().allocate(size_bytes);
      if (*pointer != nullptr) return;
    }
    pin(size_bytes, pointer);
  }

  void free_block(Block* block) override {
    if (reserve_segment().initialized() && reserve_segment().owns(block->ptr_)) return;
    const auto found = registers_.find(block->ptr_);
    machine_.unpin(machine_.context, number(block->ptr_), found->second ? 1 : 0);
    registers_.erase(found);
    stats_.host_free_time.increase(0);
  }

  void record_stream(std::optional<std::vector<HostEvent>>& events, HostStream stream) override {
    events->emplace_back(machine_, machine_.record_event(machine_.context, stream.id));
  }

  bool query_event(HostEvent& event) override { return !is_queried_in_capture() && event.done(); }

  bool pinned_use_background_threads() override { return Config::pinned_use_background_threads(); }

  // From 2.11 on these override; before, nothing calls them.
  virtual HostStream get_current_stream() const { return HostStream(kCapturedStream); }
  virtual bool stream_is_capturing(HostStream) const { return is_capturing_; }

  static std::uint64_t number(const void* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
  }

 private:
  static constexpr std::uint64_t kCapturedStream = 7;

  // The background thread's own stream is never captured.
  [[nodiscard]] bool is_queried_in_capture() const { return is_capturing_ && !is_in_pass_; }

  template <typename Self>
  static void process_default(Self& self) {
    self.is_in_pass_ = true;
    if constexpr (requires { self.process_events(); }) {
      self.process_events();
    } else if constexpr (requires { self.process_events(self.default_pool_); }) {
      self.process_events(self.default_pool_);
    } else {
      self.process_events(self.default_pool_, nullptr);
    }
    self.is_in_pass_ = false;
  }

  ReserveSegment& reserve_segment() {
    static ReserveSegment segment = make_reserve_segment();
    return segment;
  }

  template <typename Settings>
  static std::size_t reserve_bytes() {
    if constexpr (requires { Settings::pinned_reserve_segment_size_mb(); })
      return Settings::pinned_reserve_segment_size_mb() * 1024 * 1024;
    return 0;
  }

  ReserveSegment make_reserve_segment() {
    const std::size_t size_bytes = reserve_bytes<Config>();
    if (size_bytes == 0) return ReserveSegment();
    void* pointer = nullptr;
    pin(size_bytes, &pointer);
    return ReserveSegment(pointer, size_bytes);
  }

  void pin(std::size_t size_bytes, void** pointer) {
    const bool registers = Config::pinned_use_cuda_host_register();
    const std::uint64_t address = machine_.pin(machine_.context, size_bytes, registers ? 1 : 0,
                                               Config::pinned_num_register_threads());
    TORCH_CHECK_WITH(OutOfMemoryError, address != 0, "the machine refuses to pin ", size_bytes,
                     " bytes");
    *pointer = reinterpret_cast<void*>(address);
    registers_[*pointer] = registers;
    stats_.host_alloc_time.increase(0);
  }

  AllocmarkHostMachine machine_;
  std::unordered_map<const void*, bool> registers_;
  bool has_background_thread_ = false;
  bool is_capturing_ = false;
  bool is_in_pass_ = false;
};

}  // namespace allocmark_torch
