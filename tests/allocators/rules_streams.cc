// Threads at once, work on streams that is held back, and several instances. Checks; times nothing
// - where a backend may block for the device, the test waits a bounded while, and a slow machine
// makes it weaker, never red.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "tests/allocators/conformance.h"
#include "tests/allocators/owned_blocks.h"
#include "tests/support/device_probe.h"

namespace allocmark::rules {
namespace {

// Long enough for any backend that does not wait for the device.
constexpr std::chrono::milliseconds kPatience{100};

// Runs a function on a thread of its own and keeps what it throws.
class Helper {
 public:
  explicit Helper(std::function<void()> function)
      : thread_([this, work = std::move(function)] {
          try {
            work();
          } catch (...) {
            error_ = std::current_exception();
          }
          const std::scoped_lock lock(mutex_);
          done_ = true;
          changed_.notify_all();
        }) {}
  ~Helper() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  [[nodiscard]] bool done_within(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return done_; });
  }

  void join() {
    thread_.join();
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

constexpr std::array<std::uint64_t, 6> kStreamSizes = {4 * kKiB, 256 * kKiB, kMiB,
                                                       2 * kMiB, 8 * kMiB,   40 * kMiB};

OwnedBlock take(Backend& backend, std::uint64_t size_bytes, cudaStream_t stream) {
  const AllocateResult result = backend.allocate(size_bytes, stream);
  expect(result.status == AllocateStatus::Ok, "out of memory on an empty device");
  return {.pointer = result.pointer, .size_bytes = size_bytes, .stream = stream, .id = 0};
}

// One scene: `freed` is given back while `gate` holds some work that uses it, then `next_stream`
// asks for as much. If it gets the same memory while the work is still held, its own stream must be
// waiting for that work.
struct Scene {
  Backend& backend;
  OwnedBlock freed;
  cudaStream_t next_stream;
  Gate& gate;
};

void expect_no_early_reuse(const Scene& scene) {
  std::optional<OwnedBlock> next;
  Helper helper([&] {
    scene.backend.deallocate(scene.freed.pointer, scene.freed.size_bytes, scene.freed.stream);
    next = take(scene.backend, scene.freed.size_bytes, scene.next_stream);
  });
  std::string broken;
  if (helper.done_within(kPatience) && next && overlap(*next, scene.freed) &&
      !is_stalled(scene.next_stream)) {
    broken =
        fmt::format("{} bytes at {} went to another stream while work on them was still running",
                    scene.freed.size_bytes, scene.freed.pointer);
  }
  scene.gate.open();
  helper.join();
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  expect(broken.empty(), broken);
  scene.backend.deallocate(next->pointer, next->size_bytes, next->stream);
}

// The blocks of all threads at once, for overlap between threads.
class SharedRanges {
 public:
  void add(const OwnedBlock& block) {
    const std::scoped_lock lock(mutex_);
    ranges_.add(block);
  }
  void remove(const OwnedBlock& block) {
    const std::scoped_lock lock(mutex_);
    ranges_.remove(block);
  }

 private:
  std::mutex mutex_;
  RangeMap ranges_;
};

// Where one thread leaves blocks for the next to free.
class Mailbox {
 public:
  void put(const OwnedBlock& block) {
    const std::scoped_lock lock(mutex_);
    blocks_.push_back(block);
  }
  std::vector<OwnedBlock> take_all() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(blocks_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<OwnedBlock> blocks_;
};

struct ThreadWork {
  Backend& backend;
  SharedRanges& ranges;
  Mailbox& from;
  Mailbox& to;
  cudaStream_t stream;
  std::uint64_t seed;
};

void free_mail(const ThreadWork& work) {
  for (const OwnedBlock& block : work.from.take_all()) {
    work.ranges.remove(block);
    work.backend.deallocate(block.pointer, block.size_bytes, block.stream);
  }
}

void allocate_and_pass_on(const ThreadWork& work) {
  Random random(work.seed);
  for (int step = 0; step < 400; ++step) {
    const OwnedBlock block = take(work.backend, random_size_bytes(random, 8 * kMiB), work.stream);
    work.ranges.add(block);
    work.to.put(block);
    if (random.below(4) == 0) {
      free_mail(work);
    }
  }
}

}  // namespace

void threads_free_for_each_other(const Subject& subject) {
  constexpr std::size_t kThreadCount = 4;
  const std::array<Stream, kThreadCount> streams;
  const auto backend = subject.make();
  SharedRanges ranges;
  std::array<Mailbox, kThreadCount> mailboxes;
  {
    std::vector<std::unique_ptr<Helper>> helpers;
    for (std::size_t index = 0; index < kThreadCount; ++index) {
      const ThreadWork work{.backend = *backend,
                            .ranges = ranges,
                            .from = mailboxes[index],
                            .to = mailboxes[(index + 1) % kThreadCount],
                            .stream = streams[index].get(),
                            .seed = test_seed() + index};
      helpers.push_back(std::make_unique<Helper>([work] { allocate_and_pass_on(work); }));
    }
    for (const std::unique_ptr<Helper>& helper : helpers) {
      helper->join();
    }
  }
  for (Mailbox& mailbox : mailboxes) {
    for (const OwnedBlock& block : mailbox.take_all()) {
      backend->deallocate(block.pointer, block.size_bytes, block.stream);
    }
  }
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  const MemoryStats stats = backend->stats(nullptr);
  expect(stats.allocated_bytes.value_or(0) == 0,
         fmt::format("{} bytes count as allocated after everything was freed",
                     *stats.allocated_bytes));
}

void free_is_ordered(const Subject& subject) {
  const std::array<Stream, 2> streams;
  const auto backend = subject.make();
  for (int round = 0; round < 2; ++round) {  // the second time from a warm cache
    for (const std::uint64_t size_bytes : kStreamSizes) {
      Gate gate;
      const OwnedBlock block = take(*backend, size_bytes, streams[0].get());
      gate.hold(streams[0].get());
      expect_no_early_reuse(
          {.backend = *backend, .freed = block, .next_stream = streams[1].get(), .gate = gate});
    }
  }
}

void recorded_use_is_ordered(const Subject& subject) {
  const std::array<Stream, 3> streams;
  const auto backend = subject.make();
  for (const cudaStream_t next_stream : {streams[0].get(), streams[2].get()}) {
    for (const std::uint64_t size_bytes : kStreamSizes) {
      Gate gate;
      const OwnedBlock block = take(*backend, size_bytes, streams[0].get());
      ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
      gate.hold(streams[1].get());
      backend->record_stream(block.pointer, streams[1].get());
      expect_no_early_reuse(
          {.backend = *backend, .freed = block, .next_stream = next_stream, .gate = gate});
    }
  }
}

void instances_are_apart(const Subject& subject) {
  const Stream stream;
  auto first = subject.make();
  const auto second = subject.make();
  OwnedBlocks first_blocks(*first, Contents::Checked);
  OwnedBlocks second_blocks(*second, Contents::Checked);
  RangeMap both;
  for (int index = 0; index < 40; ++index) {
    OwnedBlocks& owned = index % 2 == 0 ? first_blocks : second_blocks;
    expect(
        owned.allocate((std::uint64_t{1} << (index / 2)) + 32, stream.get()) == AllocateStatus::Ok,
        "out of memory");
    both.add(owned.blocks().back());
  }
  first_blocks.free_all();
  first->trim();
  second_blocks.check_contents();
  first.reset();
  second_blocks.check_contents();
  expect(second_blocks.allocate(kMiB, stream.get()) == AllocateStatus::Ok,
         "the other's end left this one unusable");
  second_blocks.free_all();
}

void end_gives_live_blocks_back(const Subject& subject) {
  const Stream stream;
  const std::uint64_t before_bytes = used_bytes();
  for (int round = 0; round < 3; ++round) {
    const auto backend = subject.make();
    OwnedBlocks owned(*backend, Contents::Checked);
    run_trace(owned, {.seed = test_seed(),
                      .step_count = 60,
                      .size_bytes_max = 24 * kMiB,
                      .live_bytes_max = 300 * kMiB,
                      .streams = {stream.get()}});
    expect(owned.allocate(64 * kMiB, stream.get()) == AllocateStatus::Ok,
           "out of memory on an empty device");
    owned.forget();
  }
  const std::uint64_t after_bytes = used_bytes();
  expect(after_bytes <= before_bytes + used_bytes_tolerance(),
         fmt::format("{} bytes are lost", after_bytes - before_bytes));
}

}  // namespace allocmark::rules
