// Rules about streams and threads. Order is judged by simcuda's order check: by events, waits and
// synchronisation, never by time.
#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <span>
#include <thread>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/random.h"
#include "harness/tools/conformance/order_check.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

// Many rounds, so that a cache has something to hand out: blocks are used on `user` and `other`,
// freed, and asked for again on both.
std::string exchange(Scene& scene, bool records) {
  const OrderCheck order(scene);
  const cudaStream_t streams[] = {scene.make_stream(), scene.make_stream()};
  std::uint64_t count = 0;
  for (int round = 0; round < 40; ++round) {
    const cudaStream_t owner = streams[round % 2];
    const cudaStream_t other = streams[1 - round % 2];
    std::vector<Block> blocks;
    for (std::uint64_t i = 0; i < 8; ++i) {
      blocks.push_back(scene.get((1 + i % 3) * kMiB, owner));
      if (const auto missing = order.take(blocks.back())) throw Broken{*missing};
      ++count;
      work_on(scene, owner);
    }
    for (const Block& block : blocks) {
      std::vector<void*> used_on{owner};
      if (records) {
        work_on(scene, other);
        scene.record(block, other);
        work_on(scene, other);
        used_on.push_back(other);
      }
      order.give_back(block, used_on);
      scene.give(block);
    }
    // The host learns that the owner's work is done, and nothing of the other stream's; now and
    // then that everything is done, so that what waits can be used again.
    if (round % 3 == 2) ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(owner));
    if (round % 10 == 9) ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  }
  return fmt::format("{} requests on two streams", count);
}

constexpr int kThreadCount = 4;
constexpr int kStepCount = 100;

// What all threads have, and the first thing that was wrong with it. Each block's first and last
// bytes hold its number.
class SharedBlocks {
 public:
  explicit SharedBlocks(Scene& scene) : scene_(scene) {}

  void take(const Block& block) {
    const std::scoped_lock lock(mutex_);
    if (block.pointer == nullptr) {
      note(text_of(block) + " got NULL");
      return;
    }
    if (const auto other = live_.add(block)) {
      note(fmt::format("two threads have the same memory: {} got that of {}, which is live",
                       text_of(block), text_of(*other)));
    }
    if (unsigned char* const bytes = view(block); bytes != nullptr) {
      std::memcpy(bytes, &block.number, sizeof block.number);
      std::memcpy(end_of(bytes, block), &block.number, sizeof block.number);
    }
  }
  void give(const Block& block) {
    {
      const std::scoped_lock lock(mutex_);
      live_.remove(block);
      const unsigned char* const bytes = view(block);
      if (bytes != nullptr &&
          (std::memcmp(bytes, &block.number, sizeof block.number) != 0 ||
           std::memcmp(end_of(bytes, block), &block.number, sizeof block.number) != 0)) {
        note(text_of(block) + " lost what was written in it");
      }
    }
    scene_.give(block);
  }
  [[nodiscard]] std::string problem() {
    const std::scoped_lock lock(mutex_);
    return problem_;
  }

 private:
  template <typename Byte>
  static Byte* end_of(Byte* bytes, const Block& block) {
    return bytes + block.size_bytes - sizeof block.number;
  }
  // Null with a note where the block is no device memory.
  unsigned char* view(const Block& block) {
    try {
      return scene_.bytes(block);
    } catch (const Broken& broken) {
      note(broken.seen);
      return nullptr;
    }
  }
  void note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  Scene& scene_;
  std::mutex mutex_;
  LiveRanges live_;
  std::string problem_;
};

void use_from_thread(Scene& scene, SharedBlocks& blocks, int seed) {
  Random random(static_cast<std::uint64_t>(seed) + 1);
  std::vector<Block> own;
  for (int i = 0; i < kStepCount && blocks.problem().empty(); ++i) {
    if (scene.plugin.trim != nullptr && random.below(kStepCount) == 0) scene.plugin.trim();
    if (own.size() > 8 || (!own.empty() && random.below(2) == 0)) {
      blocks.give(own.back());
      own.pop_back();
      continue;
    }
    const Block block = scene.try_get(512 * (1 + random.below(4)));
    blocks.take(block);
    if (block.pointer != nullptr) own.push_back(block);
  }
  for (const Block& block : own) blocks.give(block);
}

}  // namespace

std::string stream_argument(Scene& scene) {
  const OrderCheck order(scene);
  const cudaStream_t stream = scene.make_stream();
  work_on(scene, nullptr);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Block block = scene.get((1 + i % 5) * kMiB, stream);
    if (const auto missing = order.take(block)) throw Broken{*missing};
    work_on(scene, stream);
    order.give_back(block, {stream});
    scene.give(block);
  }
  return "20 requests on a stream of its own";
}

std::string stream_order(Scene& scene) { return exchange(scene, false); }

std::string record_stream(Scene& scene) {
  if (scene.plugin.record_stream == nullptr) {
    throw NotApplicable{
        "no function is named (record_stream:FUNCTION), so it cannot know of other streams"};
  }
  return exchange(scene, true);
}

std::string threads(Scene& scene) {
  // Rounds end with all threads at rest: one that sleeps and is never woken is seen there.
  constexpr int kRoundCount = 40;
  SharedBlocks blocks(scene);
  for (int round = 0; round < kRoundCount && blocks.problem().empty(); ++round) {
    std::vector<std::thread> all;
    for (int i = 0; i < kThreadCount; ++i) {
      all.emplace_back([&, i] { use_from_thread(scene, blocks, round * kThreadCount + i); });
    }
    for (std::thread& each : all) each.join();
  }
  expect(blocks.problem().empty(), blocks.problem());
  return fmt::format("{} threads, {} steps each", kThreadCount, kRoundCount * kStepCount);
}

std::string free_on_other_thread(Scene& scene) {
  std::vector<Block> blocks;
  for (std::uint64_t i = 0; i < 50; ++i) blocks.push_back(scene.get(4096 * (1 + i % 9)));
  std::thread([&] { scene.give_all(blocks); }).join();
  for (std::uint64_t i = 0; i < 50; ++i) blocks.push_back(scene.get(4096 * (1 + i % 9)));
  scene.give_all(blocks);
  return "50 blocks";
}

std::string threads_end(Scene& scene) {
  constexpr int kRepeatCount = 8;
  constexpr int kThreadsEach = 8;
  std::vector<std::uint64_t> after;
  for (int repeat = 0; repeat < kRepeatCount; ++repeat) {
    for (int i = 0; i < kThreadsEach; ++i) {
      std::thread([&] {
        std::vector<Block> blocks;
        for (std::uint64_t size = 1; size <= 8; ++size)
          blocks.push_back(scene.get(size * kMiB / 4));
        scene.give_all(blocks);
      }).join();
    }
    (void)cudaDeviceSynchronize();
    after.push_back(scene.used_bytes());
  }
  expect(!rises(std::span(after).subspan(2)),
         fmt::format("after {} threads that freed all and ended, the device had {} MiB in "
                     "use, and after {} of them {} MiB",
                     3 * kThreadsEach, after[2] / kMiB, kRepeatCount * kThreadsEach,
                     after.back() / kMiB));
  return fmt::format("{} threads, {} MiB kept", kRepeatCount * kThreadsEach, after.back() / kMiB);
}

}  // namespace allocmark::conformance::checks
