// Goal: the conformance suite is no rubber stamp. Method: a plain allocator into which one fault at
// a time is planted must break the rule that names that fault, and must keep all rules when it has
// none.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "tests/allocators/conformance.h"
#include "tests/catch.h"
#include "tests/support/device_probe.h"

namespace allocmark {
namespace {

enum class Fault : std::uint8_t {
  None,
  Misaligned,
  PastTheEnd,
  Overlapping,
  ScribblesOnNeighbours,
  RefusesSizeZero,
  WrapsHugeSizes,
  LeavesLastError,
  SaysOkWhenFull,
  IgnoresLimit,
  LeaksWhenInnerCallFails,
  LeaksEvents,
  NeverFrees,
  ReportsTooLittle,
  TrimDoesNothing,
  OneThreadOnly,
  OffersBeforeWaiting,
  IgnoresStreams,
  IgnoresRecordedUse,
  SharesStateBetweenInstances,
  LeaksAtTheEnd,
  Moody,
};

struct CachedBlock {
  void* pointer = nullptr;
  std::uint64_t size_bytes = 0;
};

// What instances share that should not: the planted fault itself.
struct SharedState {
  std::vector<void*> blocks;
  std::uint64_t call_count = 0;
};

// Every block has a header, as allocators with two inner calls have; freed blocks are kept per
// stream for requests of the same size.
class PlantedBackend final : public Backend {
 public:
  PlantedBackend(Fault fault, std::uint64_t memory_limit_bytes, std::shared_ptr<SharedState> shared)
      : fault_(fault), memory_limit_bytes_(memory_limit_bytes), shared_(std::move(shared)) {
    if (fault_ == Fault::LeaksEvents) {
      void* block = nullptr;
      ALLOCMARK_CUDA_CHECK(cudaMalloc(&block, 2 * kMiB));
      ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
      ALLOCMARK_CUDA_CHECK(cudaFree(block));
    }
  }

  ~PlantedBackend() override {
    trim_cache();
    if (fault_ != Fault::LeaksAtTheEnd) {
      for (const auto& [pointer, block] : live_) {
        (void)cudaFree(block.pointer);
      }
    }
    if (fault_ == Fault::SharesStateBetweenInstances) {
      for (void* block : std::exchange(shared_->blocks, {})) {
        (void)cudaFree(block);
      }
    }
    for (void* block : lost_) {
      (void)cudaFree(block);
    }
    if (event_ != nullptr) {
      (void)cudaEventDestroy(event_);
    }
  }

  AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const std::scoped_lock lock(mutex_);
    if (size_bytes == 0) {
      return {.pointer = nullptr,
              .status = fault_ == Fault::RefusesSizeZero ? AllocateStatus::OutOfMemory
                                                         : AllocateStatus::Ok};
    }
    const bool over_limit =
        memory_limit_bytes_ != 0 && live_bytes_ + size_bytes > memory_limit_bytes_;
    const bool in_a_mood = fault_ == Fault::Moody && ++shared_->call_count % 999 == 0;
    if ((over_limit && fault_ != Fault::IgnoresLimit) || in_a_mood) {
      return refused();
    }
    const std::optional<CachedBlock> block = from_cache_or_device(size_bytes, stream);
    if (!block) {
      return refused();
    }
    return hand_out(*block, size_bytes);
  }

  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer == nullptr) {
      return;
    }
    std::unique_lock lock(mutex_);
    if (fault_ == Fault::OneThreadOnly && std::this_thread::get_id() != thread_) {
      throw EnvironmentError(
          {.what = "not my thread", .where = {}, .wanted = {}, .got = {}, .next = {}});
    }
    const CachedBlock block = live_.at(pointer);
    live_.erase(pointer);
    live_bytes_ -= size_bytes;
    if (fault_ == Fault::NeverFrees) {
      lost_.push_back(block.pointer);
      return;
    }
    if (recorded_.erase(pointer) != 0 && fault_ != Fault::IgnoresRecordedUse) {
      ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
    }
    cache_[serves_any_stream() ? nullptr : stream].push_back(block);
    if (fault_ == Fault::OffersBeforeWaiting) {
      lock.unlock();
      ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream));
    }
  }

  void record_stream(void* pointer, cudaStream_t /*stream*/) override {
    const std::scoped_lock lock(mutex_);
    recorded_.insert(pointer);
  }

  void trim() override {
    const std::scoped_lock lock(mutex_);
    if (fault_ != Fault::TrimDoesNothing) {
      trim_cache();
    }
  }

  MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::scoped_lock lock(mutex_);
    MemoryStats stats;
    stats.allocated_bytes = live_bytes_;
    stats.reserved_bytes = fault_ == Fault::ReportsTooLittle ? live_bytes_ / 2 : reserved_bytes_;
    return stats;
  }

 private:
  [[nodiscard]] bool serves_any_stream() const {
    return fault_ == Fault::IgnoresStreams || fault_ == Fault::OffersBeforeWaiting;
  }

  AllocateResult refused() const {
    if (fault_ == Fault::SaysOkWhenFull) {
      return {.pointer = nullptr, .status = AllocateStatus::Ok};
    }
    return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
  }

  std::optional<CachedBlock> from_cache_or_device(std::uint64_t size_bytes, cudaStream_t stream) {
    // Rounded, so that every request has room for the faults; a careless one wraps around.
    constexpr std::uint64_t kUnitBytes = 4096;
    const std::uint64_t block_bytes = (size_bytes + 2 * kUnitBytes - 1) / kUnitBytes * kUnitBytes;
    if (block_bytes < size_bytes && fault_ != Fault::WrapsHugeSizes) {
      return std::nullopt;
    }
    std::vector<CachedBlock>& cached = cache_[serves_any_stream() ? nullptr : stream];
    for (CachedBlock& block : cached) {
      if (block.size_bytes == block_bytes) {
        const CachedBlock found = block;
        block = cached.back();
        cached.pop_back();
        return found;
      }
    }
    std::optional<CachedBlock> block = from_device(block_bytes);
    if (!block) {
      trim_cache();
      block = from_device(block_bytes);
    }
    return block;
  }

  std::optional<CachedBlock> from_device(std::uint64_t block_bytes) {
    void* header = nullptr;
    void* pointer = nullptr;
    if (is_out_of_memory(cudaMalloc(&header, 2 * kMiB))) {
      return std::nullopt;
    }
    const cudaError_t error = cudaMalloc(&pointer, block_bytes);
    if (error != cudaSuccess && fault_ == Fault::LeaksWhenInnerCallFails) {
      (void)cudaGetLastError();
      return std::nullopt;
    }
    if (fault_ == Fault::LeavesLastError) {
      ALLOCMARK_CUDA_CHECK(cudaFree(header));
    } else {
      (void)is_out_of_memory(error);
      ALLOCMARK_CUDA_CHECK(cudaFree(header));
    }
    if (error != cudaSuccess) {
      return std::nullopt;
    }
    reserved_bytes_ += block_bytes;
    return CachedBlock{.pointer = pointer, .size_bytes = block_bytes};
  }

  AllocateResult hand_out(CachedBlock block, std::uint64_t size_bytes) {
    char* pointer = static_cast<char*>(block.pointer);
    if (fault_ == Fault::Misaligned) {
      pointer += 8;
    }
    if (fault_ == Fault::PastTheEnd) {
      pointer += block.size_bytes + 64 * kGiB;
    }
    if (fault_ == Fault::Overlapping && !live_.empty() &&
        live_.begin()->second.size_bytes > block.size_bytes) {
      pointer = static_cast<char*>(live_.begin()->first) + 256;
    }
    if (fault_ == Fault::ScribblesOnNeighbours && !live_.empty()) {
      ALLOCMARK_CUDA_CHECK(
          cudaMemset(live_.begin()->first, 0xFF, live_.begin()->second.size_bytes));
    }
    if (fault_ == Fault::SharesStateBetweenInstances) {
      shared_->blocks.push_back(block.pointer);
    }
    live_.insert_or_assign(pointer, block);
    live_bytes_ += size_bytes;
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  void trim_cache() {
    for (auto& [stream, blocks] : cache_) {
      for (const CachedBlock& block : std::exchange(blocks, {})) {
        (void)cudaFree(block.pointer);
        reserved_bytes_ -= block.size_bytes;
      }
    }
  }

  Fault fault_;
  std::uint64_t memory_limit_bytes_;
  std::shared_ptr<SharedState> shared_;
  std::thread::id thread_ = std::this_thread::get_id();
  mutable std::mutex mutex_;
  std::map<cudaStream_t, std::vector<CachedBlock>> cache_;
  std::map<void*, CachedBlock> live_;
  std::set<void*> recorded_;
  std::vector<void*> lost_;
  cudaEvent_t event_ = nullptr;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
};

Subject planted(Fault fault) {
  auto shared = std::make_shared<SharedState>();
  return {
      .name = "planted",
      .conf = {},
      .capabilities = {.any_thread = true,
                       .stream_ordered = true,
                       .real_memory = true,
                       .honours_memory_limit = true,
                       .alignment_bytes = 256},
      .make_backend = [fault, shared](const BackendOptions& options) -> std::unique_ptr<Backend> {
        return std::make_unique<PlantedBackend>(fault, options.memory_limit_bytes, shared);
      }};
}

Verdict verdict_on(Fault fault, std::string_view rule_name) {
  for (const Rule& rule : conformance_rules()) {
    if (rule.name == rule_name) {
      return hold_against(rule, planted(fault));
    }
  }
  return {.outcome = Outcome::NotClaimed, .reason = "no such rule"};
}

struct Plant {
  Fault fault;
  std::string_view rule;
  std::string_view said;  // part of the reason
};

}  // namespace

TEST_CASE("a backend without planted faults keeps every rule") {
  for (const Rule& rule : conformance_rules()) {
    const Verdict verdict = hold_against(rule, planted(Fault::None));
    INFO("rule " << rule.name << ": " << verdict.reason);
    CHECK((verdict.outcome == Outcome::Kept ||
           (verdict.reason.starts_with("(test)") && !on_simcuda())));
  }
}

TEST_CASE("every planted fault breaks its rule") {
  constexpr Plant kCatches[] = {
      {Fault::Misaligned, "alignment", "got 0x"},
      {Fault::Overlapping, "overlap", "which is live"},
      {Fault::ScribblesOnNeighbours, "contents", "was changed by somebody else"},
      {Fault::RefusesSizeZero, "size-zero", "size 0 was refused"},
      {Fault::WrapsHugeSizes, "absurd-sizes", "was granted"},
      {Fault::LeavesLastError, "last-error", "cudaGetLastError says"},
      {Fault::LeavesLastError, "refusal", "last error is left at cudaErrorMemoryAllocation"},
      {Fault::SaysOkWhenFull, "refusal", "was granted"},
      {Fault::IgnoresLimit, "memory-limit", "under a limit of"},
      {Fault::NeverFrees, "growth", "MiB in use after 2 repeats"},
      {Fault::ReportsTooLittle, "counters", "reserved"},
      {Fault::TrimDoesNothing, "trim", "stayed"},
      {Fault::OneThreadOnly, "other-thread", "not my thread"},
      {Fault::OneThreadOnly, "threads-at-once", "not my thread"},
      {Fault::IgnoresStreams, "early-reuse", "while work on them was still running"},
      {Fault::IgnoresRecordedUse, "early-recorded-reuse", "while work on them was still running"},
      {Fault::SharesStateBetweenInstances, "instances", "cudaMemcpyAsync"},
      {Fault::LeaksAtTheEnd, "end", "bytes are lost"},
      {Fault::Moody, "repeat", "differs between two runs"},
  };
  for (const Plant& planted_fault : kCatches) {
    const Verdict verdict = verdict_on(planted_fault.fault, planted_fault.rule);
    INFO("rule " << planted_fault.rule << ": " << verdict.reason);
    CHECK(verdict.outcome == Outcome::Broken);
    CHECK(verdict.reason.find(planted_fault.said) != std::string::npos);
  }
}

TEST_CASE("faults that only simcuda survives or provokes are caught there") {
  if (!on_simcuda()) {
    WARN("not run: a GPU neither makes inner calls fail nor survives a write to no memory");
    return;
  }
  const Verdict reach = verdict_on(Fault::PastTheEnd, "device-memory");
  INFO(reach.reason);
  CHECK(reach.outcome == Outcome::Broken);
  CHECK(reach.reason.find("not so much device memory") != std::string::npos);
  for (const auto& [fault, rule] : {std::pair{Fault::IgnoresStreams, "stream-order"},
                                    std::pair{Fault::IgnoresRecordedUse, "record-stream"}}) {
    const Verdict order = verdict_on(fault, rule);
    INFO(order.reason);
    CHECK(order.outcome == Outcome::Broken);
    CHECK(order.reason.find("whose stream may still use it") != std::string::npos);
  }
  const Verdict threads = verdict_on(Fault::OffersBeforeWaiting, "preemption");
  INFO(threads.reason);
  CHECK(threads.outcome == Outcome::Broken);
  CHECK(threads.reason.find("a free stood at the begin of cudaStreamSynchronize") !=
        std::string::npos);
  CHECK(verdict_on(Fault::OffersBeforeWaiting, "early-reuse").outcome == Outcome::Kept);
  const Verdict memory = verdict_on(Fault::LeaksWhenInnerCallFails, "inner-memory-failure");
  INFO(memory.reason);
  CHECK(memory.outcome == Outcome::Broken);
  CHECK(memory.reason.find("bytes are lost") != std::string::npos);
  const Verdict events = verdict_on(Fault::LeaksEvents, "inner-event-failure");
  INFO(events.reason);
  CHECK(events.outcome == Outcome::Broken);
  CHECK(events.reason.find("after call 1 of cudaEventCreateWithFlags failed") != std::string::npos);
}

TEST_CASE("what a backend does not claim is neither kept nor broken") {
  Subject subject = planted(Fault::IgnoresStreams);
  subject.capabilities.stream_ordered = false;
  for (const Rule& rule : conformance_rules()) {
    if (rule.name == "early-reuse") {
      const Verdict verdict = hold_against(rule, subject);
      CHECK(verdict.outcome == Outcome::NotClaimed);
      CHECK(verdict.reason == "does not order reuse between streams");
    }
  }
}

}  // namespace allocmark
