// Rule 7b: one thread stops at each begin and each end of a CUDA call that the backend makes, and
// another is served meanwhile. A search, so nothing is left to luck; only simcuda can stop a thread
// there. Checks; times nothing.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/simcuda/simcu_threads.h"
#include "tests/allocators/conformance.h"
#include "tests/allocators/owned_blocks.h"
#include "tests/support/device_probe.h"

namespace allocmark::rules {
namespace {

// Small ones, which caches with little room keep too, and large ones.
constexpr std::uint64_t kBlockBytes[] = {64 * kKiB, 2 * kMiB};
// Places in one call: one that gives all that is cached back has many.
constexpr std::uint64_t kPlacesMax = 24;

// Two threads with a stream each.
class Stage {
 public:
  Stage(Backend& backend, bool stream_ordered, std::uint64_t block_bytes)
      : backend_(backend), stream_ordered_(stream_ordered), block_bytes_(block_bytes) {
    simcu::require(SIMCU(simcu_order_begin)() == 0);
  }
  ~Stage() { SIMCU(simcu_order_end)(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  OwnedBlock take(std::size_t thread) { return take(thread, block_bytes_); }
  OwnedBlock take(std::size_t thread, std::uint64_t size_bytes) {
    cudaStream_t const stream = streams_[thread].get();
    const AllocateResult result = backend_.allocate(size_bytes, stream);
    expect(result.status == AllocateStatus::Ok, "out of memory on an empty device");
    const std::scoped_lock lock(mutex_);
    const OwnedBlock block{
        .pointer = result.pointer, .size_bytes = size_bytes, .stream = stream, .id = ++count_};
    SimcuUnorderedUse former{};
    const SimcuBlock taken = described(block);
    const bool unordered = SIMCU(simcu_order_take)(&taken, stream, &former) != 0;
    expect(!unordered || !stream_ordered_,
           fmt::format("block {} got memory of block {}, whose stream may still use it", block.id,
                       former.id));
    ranges_.add(block);
    simcu::require(SIMCU(simcu_launch)(stream, 1'000'000) == 0);
    return block;
  }
  void give(const OwnedBlock& block, std::vector<void*> more_streams = {}) {
    {
      const std::scoped_lock lock(mutex_);
      ranges_.remove(block);
    }
    more_streams.push_back(block.stream);
    const SimcuBlock given = described(block);
    SIMCU(simcu_order_give_back)
    (&given, more_streams.data(), static_cast<std::uint32_t>(more_streams.size()));
    backend_.deallocate(block.pointer, block.size_bytes, block.stream);
  }
  void give_recorded(const OwnedBlock& block) {
    cudaStream_t const other = streams_[1].get();
    simcu::require(SIMCU(simcu_launch)(other, 1'000'000) == 0);
    backend_.record_stream(block.pointer, other);
    give(block, {other});
  }
  void fail(std::size_t thread) {
    const AllocateResult result = backend_.allocate(std::uint64_t{1} << 46, streams_[thread].get());
    expect(result.status != AllocateStatus::Ok, "64 TiB were served");
  }
  // Three blocks go back to the cache, and one stays live.
  OwnedBlock prepare() {
    const OwnedBlock blocks[] = {take(0), take(0), take(1), take(1)};
    for (std::size_t i = 1; i < std::size(blocks); ++i) give(blocks[i]);
    return blocks[0];
  }

 private:
  static SimcuBlock described(const OwnedBlock& block) {
    return {.pointer = block.pointer,
            .size_bytes = block.size_bytes,
            .id = block.id,
            .request = block.id};
  }

  Backend& backend_;
  const bool stream_ordered_;
  const std::uint64_t block_bytes_;
  const std::array<Stream, 2> streams_;
  std::mutex mutex_;
  RangeMap ranges_;
  std::uint64_t count_ = 0;
};

void use_three(Stage& stage, std::size_t thread) {
  const OwnedBlock blocks[] = {stage.take(thread), stage.take(thread), stage.take(thread)};
  for (const OwnedBlock& block : blocks) stage.give(block);
}

// What the thread that is stopped does, with the live block that it may give back; and the other.
struct Pair {
  const char* text = nullptr;
  std::function<void(Stage&, const OwnedBlock&, bool& is_given)> first;
  std::function<void(Stage&)> second;
};

// Empty where nothing was thrown.
std::string thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const RuleBroken& rule) {
    return rule.reason;
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
  return {};
}

// A backend of its own for every place: what a broken order leaves behind harms no other.
void search(const Subject& subject, std::uint64_t block_bytes, const Pair& pair) {
  for (std::uint64_t nth = 0; nth < kPlacesMax; ++nth) {
    const auto backend = subject.make();
    Stage stage(*backend, subject.capabilities.stream_ordered, block_bytes);
    const OwnedBlock live = stage.prepare();
    bool is_given = false;
    std::array<std::string, 2> seen;
    const simcu::Interleaving run =
        simcu::interleave([&] { seen[0] = thrown_by([&] { pair.first(stage, live, is_given); }); },
                          [&] { seen[1] = thrown_by([&] { pair.second(stage); }); }, nth);
    for (const std::string& each : seen) {
      expect(each.empty(), fmt::format("{} stood at {}: {}", pair.text, run.place, each));
    }
    if (!is_given) stage.give(live);
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
    if (!run.stopped) return;
  }
}

std::vector<Pair> pairs() {
  using Block = const OwnedBlock&;
  const auto use = [](Stage& stage) {
    use_three(stage, 1);
    use_three(stage, 0);
  };
  const auto use_and_fail = [](Stage& stage) {
    use_three(stage, 1);
    stage.fail(1);
    use_three(stage, 1);
  };
  std::vector<Pair> result;
  for (const std::function<void(Stage&)>& second :
       std::vector<std::function<void(Stage&)>>{use, use_and_fail}) {
    result.push_back({"a free",
                      [](Stage& stage, Block live, bool& is_given) {
                        is_given = true;
                        stage.give(live);
                      },
                      second});
    result.push_back({"a free after record_stream",
                      [](Stage& stage, Block live, bool& is_given) {
                        is_given = true;
                        stage.give_recorded(live);
                      },
                      second});
    result.push_back(
        {"a request", [](Stage& stage, Block, bool&) { stage.give(stage.take(0)); }, second});
    result.push_back({"a request of a new size",
                      [](Stage& stage, Block, bool&) { stage.give(stage.take(0, 34 * kMiB)); },
                      second});
    result.push_back(
        {"a request that fails", [](Stage& stage, Block, bool&) { stage.fail(0); }, second});
  }
  return result;
}

}  // namespace

void threads_at_every_call(const Subject& subject) {
  for (const std::uint64_t block_bytes : kBlockBytes) {
    for (const Pair& pair : pairs()) search(subject, block_bytes, pair);
  }
}

}  // namespace allocmark::rules
