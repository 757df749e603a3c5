// Rules about streams and threads. Order is judged by simcuda's order check: by events, waits and
// synchronisation, never by time.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/random.h"
#include "harness/conformance/order_check.h"
#include "harness/conformance/rule.h"

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
        scene.plugin.record_stream(block.pointer, other);
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
  constexpr int kThreadCount = 4;
  constexpr int kStepCount = 4000;
  std::mutex mutex;
  std::map<char*, std::uint64_t> live;
  std::string problem;
  std::atomic<bool> stopped = false;
  const auto free_one = [&](const Block& block) {
    {
      const std::scoped_lock lock(mutex);
      live.erase(block.pointer);
    }
    scene.plugin.free(block.pointer, static_cast<ssize_t>(block.size_bytes), 0, nullptr);
  };
  const auto body = [&](int index) {
    Random random(static_cast<std::uint64_t>(index) + 1);
    std::vector<Block> own;
    for (int i = 0; i < kStepCount && !stopped; ++i) {
      if (own.size() > 8 || (!own.empty() && random.below(2) == 0)) {
        free_one(own.back());
        own.pop_back();
        continue;
      }
      const std::uint64_t size_bytes = 512 * (1 + random.below(4));
      auto* const pointer =
          static_cast<char*>(scene.plugin.malloc(static_cast<ssize_t>(size_bytes), 0, nullptr));
      own.push_back({.pointer = pointer, .size_bytes = size_bytes});
      const std::scoped_lock lock(mutex);
      const bool is_new = live.emplace(pointer, size_bytes).second;
      if (pointer != nullptr && is_new) continue;
      problem = pointer == nullptr ? "a request got NULL" : "two threads got the same block";
      stopped = true;
    }
    for (const Block& block : own) free_one(block);
  };
  std::vector<std::thread> all;
  for (int i = 0; i < kThreadCount; ++i) all.emplace_back(body, i);
  for (std::thread& each : all) each.join();
  expect(problem.empty(), problem);
  return fmt::format("{} threads, {} steps each", kThreadCount, kStepCount);
}

std::string free_on_other_thread(Scene& scene) {
  std::vector<Block> blocks;
  for (std::uint64_t i = 0; i < 50; ++i) blocks.push_back(scene.get(4096 * (1 + i % 9)));
  std::thread([&] { scene.give_all(blocks); }).join();
  for (std::uint64_t i = 0; i < 50; ++i) blocks.push_back(scene.get(4096 * (1 + i % 9)));
  scene.give_all(blocks);
  return "50 blocks";
}

}  // namespace allocmark::conformance::checks
