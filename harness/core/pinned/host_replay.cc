// See host_replay.h.
#include "harness/core/pinned/host_replay.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "allocators/host_caching/counting_driver.h"
#include "allocators/host_caching/host_cache.h"
#include "allocators/host_caching/host_driver.h"
#include "allocators/pinned/cupy_blocks.h"
#include "base/bytes.h"
#include "base/divided_up.h"
#include "harness/simcuda/core/pinned_blocks.h"
#include "harness/simcuda/core/pinning_costs.h"

namespace allocmark {
namespace {

// A machine that only counts, with a clock: it charges what pinning takes on a host, as simcuda
// does (harness/simcuda/core/pinning_costs.h), and goes on while the program works. Events pass
// when the device has done what their streams had. Nothing is pinned here.
class TimedHost final : public host_caching::HostDriver {
 public:
  explicit TimedHost(std::uint32_t stream_count) : stream_ends_ns_(stream_count) {}

  [[nodiscard]] host_caching::Address pin(std::uint64_t size_bytes, host_caching::PinKind kind,
                                          std::uint64_t thread_count) override;
  void unpin(host_caching::Address address, host_caching::PinKind kind) override;
  [[nodiscard]] host_caching::Event record_event(host_caching::Stream stream) override;
  [[nodiscard]] bool event_done(host_caching::Event event) override;
  void destroy_event(host_caching::Event event) override;

  void work(std::uint64_t duration_ns) { now_ns_ += duration_ns; }
  void launch(std::uint32_t stream, std::uint64_t duration_ns);
  // A kernel that ends with the next synchronize().
  void launch_gated(std::uint32_t stream) { gated_.push_back(stream); }
  void synchronize();
  // Waits for what the stream has now.
  void wait_for(std::uint32_t stream);

  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  [[nodiscard]] std::uint64_t pinning_ns() const { return pinning_ns_; }  // unpinning too
  [[nodiscard]] std::uint64_t pinned_bytes() const { return counting_.pinned_bytes(); }
  [[nodiscard]] std::uint64_t pin_calls() const { return counting_.pin_calls(); }
  [[nodiscard]] std::uint64_t unpin_calls() const { return counting_.unpin_calls(); }

 private:
  void charge(std::uint64_t took_ns);

  host_caching::CountingDriver counting_;
  std::vector<std::uint64_t> stream_ends_ns_;
  std::vector<std::uint32_t> gated_;  // streams with a kernel that does not end by itself
  std::map<host_caching::Event, std::uint64_t> ends_ns_;  // of events that are not destroyed
  std::map<host_caching::Address, std::uint64_t> sizes_bytes_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t pinning_ns_ = 0;
};

using host_caching::Address;

using host_caching::PinKind;

using simcuda::PinCall;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// Threads touch the pages between them; then one call registers all.
std::uint64_t pin_ns(std::uint64_t size_bytes, PinKind kind, std::uint64_t thread_count) {
  if (kind == PinKind::HostAlloc) return pinning_ns(PinCall::Allocate, size_bytes);
  const std::uint64_t touched_ns = pinning_ns(PinCall::RegisterTouched, size_bytes);
  const std::uint64_t touch_ns = pinning_ns(PinCall::Register, size_bytes) - touched_ns;
  return touched_ns + touch_ns / std::max<std::uint64_t>(1, thread_count);
}

void TimedHost::charge(std::uint64_t took_ns) {
  now_ns_ += took_ns;
  pinning_ns_ += took_ns;
}

Address TimedHost::pin(std::uint64_t size_bytes, PinKind kind, std::uint64_t thread_count) {
  const Address address = counting_.pin(size_bytes, kind, thread_count);
  if (address == 0) return 0;
  sizes_bytes_[address] = size_bytes;
  charge(pin_ns(size_bytes, kind, thread_count));
  return address;
}

void TimedHost::unpin(Address address, PinKind kind) {
  counting_.unpin(address, kind);
  const auto found = sizes_bytes_.find(address);
  charge(simcuda::pinning_ns(kind == PinKind::HostAlloc ? PinCall::Free : PinCall::Unregister,
                             found->second));
  sizes_bytes_.erase(found);
}

host_caching::Event TimedHost::record_event(host_caching::Stream stream) {
  const host_caching::Event event = counting_.record_event(stream);
  const bool is_gated = std::ranges::find(gated_, stream) != gated_.end();
  ends_ns_[event] = is_gated ? kNever : stream_ends_ns_[stream];
  return event;
}

bool TimedHost::event_done(host_caching::Event event) { return ends_ns_.at(event) <= now_ns_; }

void TimedHost::destroy_event(host_caching::Event event) {
  ends_ns_.erase(event);
  counting_.destroy_event(event);
}

void TimedHost::launch(std::uint32_t stream, std::uint64_t duration_ns) {
  std::uint64_t& end_ns = stream_ends_ns_[stream];
  end_ns = std::max(end_ns, now_ns_) + duration_ns;
}

void TimedHost::synchronize() {
  for (const std::uint64_t end_ns : stream_ends_ns_) now_ns_ = std::max(now_ns_, end_ns);
  gated_.clear();
  for (auto& [event, end_ns] : ends_ns_) end_ns = std::min(end_ns, now_ns_);
}

void TimedHost::wait_for(std::uint32_t stream) {
  if (std::ranges::find(gated_, stream) != gated_.end()) return synchronize();
  now_ns_ = std::max(now_ns_, stream_ends_ns_[stream]);
}

using host_caching::Address;
using host_caching::HostCache;
using host_caching::PinKind;

constexpr std::uint64_t kPinnedPageBytes = 4 * kKiB;
constexpr std::uint64_t kBackgroundStepNs = 100'000;  // between two looks of PyTorch's thread

class CachedPinning {
 public:
  CachedPinning(TimedHost& host, const caching::Settings& settings)
      : cache_(host, settings), has_thread_(settings.pinned_use_background_threads) {}

  Address allocate(std::uint64_t size_bytes) { return cache_.allocate(size_bytes).address; }
  void use(Address address, std::uint32_t stream) { (void)cache_.use(address, stream); }
  void free(Address address) { cache_.deallocate(address); }
  // Time has passed.
  void pass() {
    if (has_thread_) cache_.background_pass();
  }

 private:
  HostCache cache_;
  bool has_thread_;
};

// Blocks of cudaHostAlloc and cudaMallocHost.
class DriverBlocks {
 public:
  explicit DriverBlocks(TimedHost& host) : host_(host) {}

  // 0 where the host has no more.
  Address allocate(std::uint64_t size_bytes) {
    const std::uint64_t missing_bytes = blocks_.missing_bytes(size_bytes);
    Address pinned = 0;
    if (missing_bytes > 0) {
      pinned = host_.pin(missing_bytes, PinKind::HostAlloc, 1);
      if (pinned == 0) return 0;
    }
    return blocks_.place(size_bytes, pinned);
  }
  void free(Address address) {
    const simcuda::Range unpinned = blocks_.remove(address);
    if (!unpinned.empty()) host_.unpin(unpinned.lo, PinKind::HostAlloc);
  }

 private:
  TimedHost& host_;
  simcuda::PinnedBlocks blocks_;
};

class ExactPinning {
 public:
  ExactPinning(TimedHost& host, PinKind kind) : host_(host), blocks_(host), kind_(kind) {}

  Address allocate(std::uint64_t size_bytes) {
    if (size_bytes == 0) return 0;
    ++pin_count_;
    if (kind_ == PinKind::HostAlloc) return blocks_.allocate(size_bytes);
    return host_.pin(rounded_up(size_bytes, kPinnedPageBytes), kind_, 1);
  }
  void use(Address address, std::uint32_t stream) { streams_[address].insert(stream); }
  void free(Address address) {
    if (address == 0) return;
    for (const std::uint32_t stream : streams_[address]) host_.wait_for(stream);
    streams_.erase(address);
    ++unpin_count_;
    kind_ == PinKind::HostAlloc ? blocks_.free(address) : host_.unpin(address, kind_);
  }
  void pass() {}
  // Of the program.
  [[nodiscard]] std::uint64_t pin_count() const { return pin_count_; }
  [[nodiscard]] std::uint64_t unpin_count() const { return unpin_count_; }

 private:
  TimedHost& host_;
  DriverBlocks blocks_;
  PinKind kind_;
  std::uint64_t pin_count_ = 0;
  std::uint64_t unpin_count_ = 0;
  std::unordered_map<Address, std::set<std::uint32_t>> streams_{};  // that use a block
};

// The driver under CuPy's pool: blocks of cudaHostAlloc.
class DriverBlocksHost final : public host_caching::HostDriver {
 public:
  explicit DriverBlocksHost(TimedHost& host) : host_(host), blocks_(host) {}

  [[nodiscard]] Address pin(std::uint64_t size_bytes, PinKind /*kind*/,
                            std::uint64_t /*thread_count*/) override {
    return blocks_.allocate(size_bytes);
  }
  void unpin(Address address, PinKind /*kind*/) override { blocks_.free(address); }
  [[nodiscard]] host_caching::Event record_event(host_caching::Stream stream) override {
    return host_.record_event(stream);
  }
  [[nodiscard]] bool event_done(host_caching::Event event) override {
    return host_.event_done(event);
  }
  void destroy_event(host_caching::Event event) override { host_.destroy_event(event); }

 private:
  TimedHost& host_;
  DriverBlocks blocks_;
};

class CupyPinning {
 public:
  explicit CupyPinning(TimedHost& host) : driver_(host), blocks_(driver_) {}

  Address allocate(std::uint64_t size_bytes) { return blocks_.allocate(size_bytes); }
  void use(Address address, std::uint32_t stream) { blocks_.use(address, stream); }
  void free(Address address) { blocks_.free(address); }
  void pass() {}
  [[nodiscard]] std::uint64_t pin_count() const { return blocks_.pin_count(); }

 private:
  DriverBlocksHost driver_;
  CupyBlocks blocks_;
};

template <typename Pinning>
class Player {
 public:
  Player(TimedHost& host, Pinning& pinning) : host_(host), pinning_(pinning) {}

  PinnedUse play(const PinnedProgram& program) {
    PinnedUse use;
    for (const Event& event : program.events) {
      step(event);
      use.pinned_bytes_peak = std::max(use.pinned_bytes_peak, host_.pinned_bytes());
    }
    use.pin_count = host_.pin_calls();
    use.unpin_count = host_.unpin_calls();
    use.pinning_ns = host_.pinning_ns();
    return use;
  }

 private:
  void step(const Event& event) {
    switch (event.kind) {
      case EventKind::HostAlloc:
        blocks_[event.id] = pinning_.allocate(event.size_bytes);
        break;
      case EventKind::HostFree:
        pinning_.free(blocks_.at(event.id));
        blocks_.erase(event.id);
        break;
      case EventKind::HostRecord:
        if (blocks_.at(event.id) != 0) pinning_.use(blocks_.at(event.id), event.stream);
        break;
      case EventKind::Kernel:
        host_.launch(event.stream, event.duration_ns());
        break;
      case EventKind::Busy:
        host_.launch_gated(event.stream);
        break;
      case EventKind::Host:
        host_.work(event.duration_ns());
        break;
      case EventKind::Sync:
        host_.synchronize();
        break;
      default:
        break;  // of the device's allocator alone; empty_cache leaves pinned memory, too
    }
    if (host_.now_ns() < next_pass_ns_) return;
    pinning_.pass();
    next_pass_ns_ = host_.now_ns() + kBackgroundStepNs;
  }

  TimedHost& host_;
  Pinning& pinning_;
  std::unordered_map<std::uint64_t, Address> blocks_{};
  std::uint64_t next_pass_ns_ = 0;
};

}  // namespace

PinnedUse replay_cached(const PinnedProgram& program, const caching::Settings& settings) {
  TimedHost host(program.stream_count);
  CachedPinning pinning(host, settings);
  return Player(host, pinning).play(program);
}

PinnedUse replay_exact(const PinnedProgram& program, PinKind kind) {
  TimedHost host(program.stream_count);
  ExactPinning pinning(host, kind);
  PinnedUse use = Player(host, pinning).play(program);
  use.pin_count = pinning.pin_count();
  use.unpin_count = pinning.unpin_count();
  return use;
}

PinnedUse replay_cupy(const PinnedProgram& program) {
  TimedHost host(program.stream_count);
  CupyPinning pinning(host);
  PinnedUse use = Player(host, pinning).play(program);
  use.pin_count = pinning.pin_count();
  return use;
}

}  // namespace allocmark
