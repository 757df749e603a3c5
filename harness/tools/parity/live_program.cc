// One side of the live comparison (live_parity.h).
#include "harness/tools/parity/live_parity.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/caching/caching.h"
#include "allocators/caching/config.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/plugins/torch.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/parity/parity_text.h"

namespace allocmark {
namespace {

using caching::Change;
using caching::Program;

constexpr std::uint64_t kCounterInterval = 50;
// Steps between counters after failures, of which a program may have thousands.
constexpr std::uint64_t kFailureInterval = 10;
// Pools and large reservations lie below, at addresses that are the same in every process.
constexpr std::uint64_t kHeapAddressMin = 0x100000000000;

// A backend, and what the program needs beyond one of those that have it.
struct Subject {
  std::unique_ptr<Backend> backend{};
  TorchBackend* torch = nullptr;      // the backend, or null
  CachingBackend* caching = nullptr;  // likewise

  // The text where it is refused. Another allocator knows none of PyTorch's settings.
  [[nodiscard]] std::string change_settings(const std::string& conf) const {
    if (torch != nullptr) return torch->change_settings(conf);
    return caching != nullptr ? caching->change_settings(conf) : "";
  }
  void change_limit(std::uint64_t limit_bytes) const {
    if (torch != nullptr) torch->change_limit(limit_bytes);
    if (caching != nullptr) caching->change_limit(limit_bytes);
  }
  [[nodiscard]] std::string last_failure_text() const {
    if (torch != nullptr) return torch->last_failure_text();
    return caching != nullptr ? caching->last_failure_text() : "";
  }
  [[nodiscard]] std::uint64_t known_bug_count() const {
    if (caching == nullptr) return 0;
    return caching->split_release_count() + caching->pool_count_error_count();
  }
};

Subject make_subject(std::string_view name, const std::string& conf) {
  const std::size_t at = name.find('@');
  const std::string release(at == std::string_view::npos ? "" : name.substr(at + 1));
  if (family_of(name) == "torch") {
    auto torch = std::make_unique<TorchBackend>(BackendOptions{.conf = conf}, release);
    TorchBackend* const own = torch.get();
    return {.backend = std::move(torch), .torch = own};
  }
  if (family_of(name) != "caching") {
    const BackendEntry& entry = find_backend(name);
    if (const std::string reason = entry.unavailable_reason(); !reason.empty()) {
      throw EnvironmentError(
          {.what = "the allocator cannot run here", .where = entry.name, .got = reason});
    }
    return {.backend = entry.make({})};
  }
  const caching::Rules* const rules = release.empty()
                                          ? &caching::newest_rules()
                                          : &caching::require_rules(release, std::string(name));
  const caching::PytorchConfig config = caching::parse_pytorch(conf, *rules);
  if (!config.accepted()) {
    throw UsageError(
        {.what = "PyTorch does not accept the config string", .where = conf, .got = config.error});
  }
  auto caching = std::make_unique<CachingBackend>(config.settings, 0);
  CachingBackend* const own = caching.get();
  return {.backend = std::move(caching), .caching = own};
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

// Streams in the order of their handles, which is the order in which the allocator walks them; the
// default stream is 0.
class Streams {
 public:
  explicit Streams(std::uint64_t count) {
    for (std::uint64_t i = 1; i < count; ++i) {
      cudaStream_t stream = nullptr;
      ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      handles_.push_back(stream);
    }
    std::ranges::sort(handles_);
  }
  [[nodiscard]] cudaStream_t at(std::uint64_t index) const { return handles_.at(index); }

 private:
  std::vector<cudaStream_t> handles_ = {nullptr};  // live as long as the process
};

class LiveRun {
 public:
  LiveRun(const Program& program, std::string_view backend,
          const std::function<void(const std::string& line)>& sink)
      : program_(program), sink_(sink), simcu_(SimcuApi::find()), streams_(stream_count(program)) {
    void* probe = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaMalloc(&probe, kMiB));
    heap_base_ = address_of(probe);
    ALLOCMARK_CUDA_CHECK(cudaFree(probe));
    subject_ = make_subject(backend, program.conf);
    has_pools_ = std::ranges::any_of(program.events,
                                     [](const Event& event) { return is_of_pool(event.kind); });
    is_torch_ = family_of(backend) == "torch";
    if (family_of(backend) == "caching" &&
        program.conf.find("backend:cudaMallocAsync") != std::string::npos)
      make_stream_pool();
  }

  void run() {
    try {
      for (; index_ < program_.events.size(); ++index_) {
        step(program_.events[index_]);
        note_known_bugs();
        if ((index_ + 1) % kCounterInterval == 0) write_counters();
      }
      write_counters();
    } catch (const Error& error) {
      write("e", caching::without_device_state(error.what()));
    }
  }

 private:
  static std::uint64_t stream_count(const Program& program) {
    constexpr std::uint64_t kStreamCountMax = 64;
    std::uint64_t last = 0;
    for (const Event& event : program.events) last = std::max<std::uint64_t>(last, event.stream);
    if (last < kStreamCountMax) return last + 1;
    throw UsageError({.what = "the program uses too many streams",
                      .wanted = fmt::format("at most {}", kStreamCountMax),
                      .got = fmt::format("stream {}", last)});
  }

  // For the one stream that this backend of PyTorch needs, c10 makes its whole pool of streams,
  // which takes device memory. Ours makes one.
  static void make_stream_pool() {
    constexpr int kPoolStreamCount = 128;
    for (int i = 1; i < kPoolStreamCount; ++i) {
      cudaStream_t stream = nullptr;
      ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
  }

  // The plugin of a release that marks captures has a stream for them, which may take a page of the
  // device. Both sides make it when the first capture begins; without memory for it there is none.
  [[nodiscard]] bool make_capture_stream() {
    if (program_.rules->pools_capture || has_capture_stream_) return true;
    cudaStream_t stream = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    // The plugin makes its own in this one's place.
    if (is_torch_) ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(stream));
    has_capture_stream_ = true;
    return true;
  }

  void begin_capture(const Event& event) {
    if (!make_capture_stream()) return;
    captured_.insert(event.id);
    call_pool(event);
  }

  void end_capture(const Event& event) {
    if (captured_.erase(event.id) > 0) call_pool(event);
  }

  void write(std::string_view letter, std::string_view text) {
    line_.clear();
    fmt::format_to(std::back_inserter(line_), "{} {} ", letter, index_);
    std::replace_copy(text.begin(), text.end(), std::back_inserter(line_), '\n', ' ');
    line_ += '\n';
    sink_(line_);
  }

  void step(const Event& event) {
    const cudaStream_t stream = streams_.at(event.stream);
    const auto held = blocks_.find(event.id);
    switch (event.kind) {
      case EventKind::Alloc:
        return held == blocks_.end() ? allocate(event) : void();
      case EventKind::Free:
        if (held == blocks_.end()) return;
        subject_.backend->deallocate(held->second.pointer, held->second.size_bytes,
                                     held->second.stream);
        blocks_.erase(held);
        return;
      case EventKind::Record:
        if (held == blocks_.end() || held->second.stream == stream) return;
        return subject_.backend->record_stream(held->second.pointer, stream);
      case EventKind::Busy:
        return check_launch(simcu_.launch(stream, busy_ns(index_)));
      case EventKind::Sync:
        return ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
      case EventKind::Trim:
        return event.id == 0 ? subject_.backend->trim() : call_pool(event);
      case EventKind::Mark:
        return change(program_.changes[event.id]);
      case EventKind::CaptureBegin:
        return begin_capture(event);
      case EventKind::CaptureEnd:
        return end_capture(event);
      default:
        return call_pool(event);
    }
  }

  void change(const Change& change) {
    if (change.limit_bytes) return subject_.change_limit(*change.limit_bytes);
    const std::string refused = subject_.change_settings(*change.conf);
    if (!refused.empty()) write("c", refused);
  }

  void note_known_bugs() {
    const std::uint64_t count = subject_.known_bug_count();
    if (count == known_bug_count_) return;
    known_bug_count_ = count;
    write("b", fmt::format("{}", count));
  }

  void call_pool(const Event& event) {
    subject_.backend->call_pool({.action = pool_action_of(event.kind),
                                 .pool = event.id,
                                 .stream = streams_.at(event.stream),
                                 .flag = event.size_bytes != 0});
  }

  void allocate(const Event& event) {
    const cudaStream_t stream = streams_.at(event.stream);
    const AllocateResult result = subject_.backend->allocate(event.size_bytes, stream);
    note_known_bugs();
    if (result.status == AllocateStatus::OutOfMemory) {
      write("a", "oom");
      write("m", caching::without_device_state(subject_.last_failure_text()));
      if (index_ < counters_next_) return;
      counters_next_ = index_ + kFailureInterval;
      return write_counters();
    }
    write("a", place(address_of(result.pointer)));
    if (result.pointer == nullptr) return;
    blocks_[event.id] = {result.pointer, event.size_bytes, stream};
  }

  // Relative to what differs from process to process.
  [[nodiscard]] std::string place(std::uint64_t address) const {
    if (address == 0) return "null";
    if (address < kHeapAddressMin) return fmt::format("{:#x}", address);
    const bool above = address >= heap_base_;
    return fmt::format("heap{}{:#x}", above ? '+' : '-',
                       above ? address - heap_base_ : heap_base_ - address);
  }

  void write_counters() {
    std::string text;
    for (const NamedCounter& counter : subject_.backend->counters()) {
      fmt::format_to(std::back_inserter(text), "{}={} ", counter.name, counter.value);
    }
    write("s", text);
    if (has_pools_) write_pools();
  }

  void write_pools() {
    struct Bytes {
      std::uint64_t reserved = 0, live = 0;
    };
    std::map<std::uint64_t, Bytes> pools;
    for (const MemorySegment& segment : subject_.backend->segments()) {
      Bytes& bytes = pools[segment.pool];
      bytes.reserved += segment.size_bytes;
      bytes.live += segment.allocated_bytes.value_or(0);
    }
    std::string text;
    for (const auto& [id, bytes] : pools)
      fmt::format_to(std::back_inserter(text), "{}={}/{} ", id, bytes.reserved, bytes.live);
    write("p", text);
  }

  void check_launch(int error) const {
    if (error == cudaSuccess) return;
    throw InternalError({.what = "simcu_launch failed",
                         .where = "simulated CUDA runtime",
                         .got = simcu_.last_message(),
                         .next = "this is a fault of allocmark: please report it"});
  }

  struct Held {
    void* pointer = nullptr;
    std::uint64_t size_bytes = 0;
    cudaStream_t stream = nullptr;
  };

  const Program& program_;
  const std::function<void(const std::string& line)>& sink_;
  SimcuApi simcu_;
  Streams streams_;
  std::uint64_t heap_base_ = 0;
  Subject subject_;
  std::unordered_map<std::uint64_t, Held> blocks_;
  std::uint64_t known_bug_count_ = 0;
  bool has_pools_ = false;
  bool is_torch_ = false;
  bool has_capture_stream_ = false;
  std::set<std::uint64_t> captured_;  // pools
  std::uint64_t index_ = 0;
  std::uint64_t counters_next_ = 0;  // after a failure at this step or later
  std::string line_;
};

}  // namespace

std::uint64_t busy_ns(std::uint64_t step) {
  constexpr std::uint64_t kBusyNsMin = 1'000'000'000'000;
  return Random(step).between(kBusyNsMin, 100 * kBusyNsMin);
}

void run_live_program(const Program& program, std::string_view backend,
                      const std::function<void(const std::string& line)>& sink) {
  if (!SimcuApi::find().present) {
    throw EnvironmentError({.what = "the live comparison needs the simulated device",
                            .wanted = "simcuda in front of the process",
                            .got = "the machine's libcudart",
                            .next = "use: allocmark parity --live"});
  }
  LiveRun(program, backend, sink).run();
}

}  // namespace allocmark
