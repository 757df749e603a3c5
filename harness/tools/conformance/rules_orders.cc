// Rules about the order of streams in long plays: parts of split blocks, several recorded streams,
// out of memory, streams that are destroyed. Order is judged by simcuda's order check, and waits by
// its clock, never by the host's time.
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/random.h"
#include "harness/tools/conformance/order_check.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

struct Play {
  bool records = false;   // blocks are used on other streams, too
  bool is_tight = false;  // the device has little memory left, and requests fail
};

struct HeldBlock {
  Block block;
  std::vector<void*> used_on;
};

// So much is left of the device in a tight play, and so many blocks live at most.
constexpr std::uint64_t kTightBytes = 512 * kMiB;
constexpr std::size_t kHeldCountMax = 48;

// Of the device, for as long as this lives.
class LittleMemory {
 public:
  explicit LittleMemory(bool is_little) {
    if (!is_little) return;
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (free_bytes <= kTightBytes) return;
    ALLOCMARK_CUDA_CHECK(cudaMalloc(&ballast_, free_bytes - kTightBytes));
  }
  ~LittleMemory() { (void)cudaFree(ballast_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  void* ballast_ = nullptr;
};

// Requests of all sizes on four streams in an order that a seed draws.
class OrderPlay {
 public:
  OrderPlay(Scene& scene, const Play& play)
      : scene_(scene), play_(play), order_(scene), little_(play.is_tight) {
    for (cudaStream_t& stream : streams_) stream = scene.make_stream();
  }

  std::string run(int step_count) {
    for (int i = 0; i < step_count; ++i) {
      if (held_.size() >= kHeldCountMax || (!held_.empty() && random_.below(100) < 48)) {
        give_one();
      } else {
        take_one();
      }
      // The host learns that one stream is done, and now and then that all are.
      if (i % 60 == 59) ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(any_stream()));
      if (i % 400 == 399) ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
    }
    while (!held_.empty()) give_one();
    return fmt::format("{} requests on {} streams{}", taken_count_, streams_.size(),
                       play_.is_tight ? fmt::format(", {} more failed", failed_count_) : "");
  }

 private:
  cudaStream_t any_stream() { return streams_.at(random_.below(streams_.size())); }

  std::uint64_t any_size() {
    if (random_.below(3) == 0) return kKiB / 2 * (1 + random_.below(64));
    return (1 + random_.below(play_.is_tight ? 40 : 24)) * kMiB;
  }

  void take_one() {
    const cudaStream_t stream = any_stream();
    const Block block =
        play_.is_tight ? scene_.try_get(any_size(), stream) : scene_.get(any_size(), stream);
    if (block.pointer == nullptr) {
      (void)cudaGetLastError();
      ++failed_count_;
      return;
    }
    ++taken_count_;
    live_.add_apart(block);
    if (const auto missing = order_.take(block)) throw Broken{*missing};
    work_on(scene_, stream);
    HeldBlock held{.block = block, .used_on = {stream}};
    const std::uint64_t other_count = play_.records ? random_.below(streams_.size()) : 0;
    for (std::uint64_t i = 0; i < other_count; ++i) use_on(held, streams_.at(i));
    // The default stream, which PyTorch's programs use most.
    if (play_.records && random_.below(4) == 0) use_on(held, nullptr);
    held_.push_back(std::move(held));
  }

  void use_on(HeldBlock& held, cudaStream_t other) {
    if (other == held.block.stream) return;
    scene_.record(held.block, other);
    work_on(scene_, other);
    held.used_on.push_back(other);
  }

  void give_one() {
    HeldBlock& held = held_.at(random_.below(held_.size()));
    order_.give_back(held.block, held.used_on);
    live_.remove(held.block);
    scene_.give(held.block);
    held = std::move(held_.back());
    held_.pop_back();
  }

  Scene& scene_;
  const Play play_;
  Random random_{20261126};
  const OrderCheck order_;
  const LittleMemory little_;
  std::array<cudaStream_t, 4> streams_{};
  std::vector<HeldBlock> held_;
  LiveRanges live_;
  std::uint64_t taken_count_ = 0, failed_count_ = 0;
};

constexpr int kPlayStepCount = 3000;

void require_record_stream(const Scene& scene) {
  if (scene.plugin.record_stream != nullptr) return;
  throw NotApplicable{
      "no function is named (record_stream:FUNCTION), so it cannot know of other streams"};
}

// Blocks of one stream that another one still uses, all at once, and as many requests after them.
std::string many_recorded(Scene& scene) {
  constexpr int kCount = 600;
  const OrderCheck order(scene);
  const cudaStream_t stream = scene.make_stream();
  const cudaStream_t other = scene.make_stream();
  std::vector<Block> blocks;
  const auto take = [&] {
    for (int i = 0; i < kCount; ++i) {
      blocks.push_back(scene.get(64 * kKiB, stream));
      if (const auto missing = order.take(blocks.back())) throw Broken{*missing};
    }
  };
  take();
  for (const Block& block : blocks) {
    scene.record(block, other);
    work_on(scene, other);
    order.give_back(block, {stream, other});
  }
  scene.give_all(blocks);
  take();
  for (const Block& block : blocks) order.give_back(block, {stream});
  scene.give_all(blocks);
  return fmt::format("{} blocks waiting at once", kCount);
}

}  // namespace

std::string split_order(Scene& scene) { return OrderPlay(scene, {}).run(kPlayStepCount); }

std::string record_many(Scene& scene) {
  require_record_stream(scene);
  const std::string play = OrderPlay(scene, {.records = true}).run(kPlayStepCount);
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  return fmt::format("{}, {}", play, many_recorded(scene));
}

std::string oom_order(Scene& scene) {
  const bool records = scene.plugin.record_stream != nullptr;
  return OrderPlay(scene, {.records = records, .is_tight = true}).run(kPlayStepCount);
}

std::string stream_handle(Scene& scene) {
  const OrderCheck order(scene);
  for (const std::uint64_t size_bytes : {4 * kKiB, 3 * kMiB, 24 * kMiB}) {
    const cudaStream_t stream = scene.make_stream();
    const Block block = scene.get(size_bytes, stream);
    if (const auto missing = order.take(block)) throw Broken{*missing};
    work_on(scene, stream);
    order.give_back(block, {stream});
    scene.give(block);
    // Its work goes on.
    ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(stream));
    const cudaStream_t again = scene.make_stream();
    if (again != stream) throw NotApplicable{"the runtime gave the new stream another handle"};
    const Block next = scene.get(size_bytes, again);
    if (const auto missing = order.take(next)) {
      throw Broken{"on a new stream with the handle of a destroyed one, " + *missing};
    }
    order.give_back(next, {again});
    scene.give(next);
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
    ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(again));
  }
  return "blocks of three sizes, a new stream with the same handle for each";
}

std::string no_waits(Scene& scene) {
  constexpr std::uint64_t kLongNs = 10'000'000'000;
  const cudaStream_t stream = scene.make_stream();
  const cudaStream_t other = scene.make_stream();
  const SimcuThreadClock* const clock = scene.simcu.thread_clock();
  // Memory that is free, so that nothing has to be waited for.
  std::vector<Block> blocks;
  for (std::uint64_t i = 0; i < 8; ++i) blocks.push_back(scene.get((1 + i) * kMiB, stream));
  scene.give_all(blocks);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::uint64_t begin_ns = clock->modelled_ns;
    const Block block = scene.get((1 + i % 8) * kMiB, stream);
    (void)scene.simcu.launch(stream, kLongNs);
    if (scene.plugin.record_stream != nullptr) {
      scene.record(block, other);
      (void)scene.simcu.launch(other, kLongNs);
    }
    scene.give(block);
    scene.give(scene.get((1 + i % 5) * kMiB, stream));
    const std::uint64_t spent_ns = clock->modelled_ns - begin_ns;
    expect(spent_ns < kLongNs / 2,
           fmt::format("around the free of {} the host waited {:.1f} s for kernels of 10 s",
                       text_of(block), static_cast<double>(spent_ns) * 1e-9));
  }
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  return "20 frees beside kernels of 10 s";
}

std::string error_state(Scene& scene) {
  const cudaStream_t stream = scene.make_stream();
  const cudaStream_t other = scene.make_stream();
  const auto look = [&](const char* call, const Block& block) {
    const cudaError_t error = cudaPeekAtLastError();
    expect(error == cudaSuccess,
           fmt::format("after the {} of {}, cudaGetLastError says {}, which PyTorch would take for "
                       "an error of its next kernel",
                       call, text_of(block), cudaGetErrorName(error)));
  };
  (void)cudaGetLastError();
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Block block = scene.get((1 + i % 7) * kMiB, stream);
    look("request", block);
    work_on(scene, stream);
    if (scene.plugin.record_stream != nullptr) {
      scene.record(block, other);
      work_on(scene, other);
    }
    scene.give(block);
    look("free", block);
  }
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  return "60 requests and frees beside work on two streams";
}

}  // namespace allocmark::conformance::checks
