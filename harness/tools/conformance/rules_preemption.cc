// A search for races: one thread is stopped at each begin and each end of a CUDA call that the
// plugin makes, and another one is served meanwhile. Nothing is left to luck, and time plays no
// part: every order that is tried can happen.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/core/replay/ballast.h"
#include "harness/simcuda/simcu_threads.h"
#include "harness/tools/conformance/order_check.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

// Blocks of one size at a time, so that threads want the same ones: small ones, which caches with
// little room keep too, and large ones.
constexpr std::uint64_t kBlockBytes[] = {64 * kKiB, 2 * kMiB};
// Places in one call of the plugin. A call that frees all that is cached has many.
constexpr std::uint64_t kPlacesMax = 24;
constexpr std::uint64_t kNowhere = UINT64_MAX;
// What the device has left. All the requests of a new size fit, and one that fails is soon refused:
// some plugins map what they get page by page until then.
constexpr std::uint64_t kLeftBytes = 32 * kGiB;

using FailedCalls = std::set<std::pair<std::string, int>>;

// Two threads with a stream each, and who has which memory. What is seen against the plugin is
// kept: a thread that throws would leave the other one alone.
class Stage {
 public:
  Stage(Scene& scene, std::uint64_t block_bytes)
      : scene_(scene),
        block_bytes_(block_bytes),
        order_(scene),
        streams_{scene.make_stream(), scene.make_stream()} {}

  [[nodiscard]] cudaStream_t stream(std::size_t thread) const { return streams_[thread]; }

  // A request of a thread, and work with what it got.
  Block take(std::size_t thread) { return take(thread, block_bytes_); }
  Block take(std::size_t thread, std::uint64_t size_bytes) {
    const Block block = scene_.try_get(size_bytes, streams_[thread]);
    if (block.pointer == nullptr) {
      note(fmt::format("{} got NULL with {} MiB of the device in use", text_of(block),
                       scene_.used_bytes() >> 20));
      return block;
    }
    if (const auto missing = order_.take(block)) note(*missing);
    work_on(scene_, block.stream);
    const std::scoped_lock lock(mutex_);
    const auto [other, is_new] = live_.emplace(block.pointer, block);
    if (!is_new) {
      seen_ = fmt::format("{} got the memory of {}, which is live", text_of(block),
                          text_of(other->second));
    }
    return block;
  }
  void give(const Block& block, std::vector<void*> more_streams = {}) {
    if (block.pointer == nullptr) return;
    {
      const std::scoped_lock lock(mutex_);
      live_.erase(block.pointer);
    }
    more_streams.push_back(block.stream);
    order_.give_back(block, std::move(more_streams));
    scene_.give(block);
  }
  void fail(std::size_t thread) {
    const Block block = scene_.try_get(kAbsurdBytes, streams_[thread]);
    if (block.pointer != nullptr) scene_.give(block);
    (void)cudaGetLastError();
  }
  // Another thread's stream uses the block too.
  void use_elsewhere(const Block& block, std::size_t thread) {
    work_on(scene_, streams_[thread]);
    scene_.plugin.record_stream(block.pointer, streams_[thread]);
  }

  // Blocks for both threads in the cache, and one of the first thread that is live and in use.
  [[nodiscard]] Block prepare() {
    std::vector<Block> blocks;
    for (const std::size_t thread : {0, 0, 1, 1}) blocks.push_back(take(thread));
    for (std::size_t i = 1; i < blocks.size(); ++i) give(blocks[i]);
    return blocks.front();
  }
  void clear() {
    std::map<char*, Block> rest;
    {
      const std::scoped_lock lock(mutex_);
      rest.swap(live_);
    }
    for (const auto& [pointer, block] : rest) {
      order_.give_back(block, {block.stream});
      scene_.give(block);
    }
    scene_.settle();
  }
  // What was seen against the plugin since the last question.
  [[nodiscard]] std::string seen() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  void note(const std::string& seen) {
    const std::scoped_lock lock(mutex_);
    if (seen_.empty()) seen_ = seen;
  }

  Scene& scene_;
  const std::uint64_t block_bytes_;
  const OrderCheck order_;
  const std::array<cudaStream_t, 2> streams_;
  std::mutex mutex_;
  std::map<char*, Block> live_;
  std::string seen_;
};

// What a thread does, with the first thread's live block. `text` is for people.
struct Part {
  const char* text = nullptr;
  std::function<void(Stage& stage, const Block& block)> run;
};

// The thread that is stopped makes one call.
std::vector<Part> first_parts(const Scene& scene) {
  std::vector<Part> parts = {
      {"a free", [](Stage& stage, const Block& block) { stage.give(block); }},
      {"a request", [](Stage& stage, const Block&) { (void)stage.take(0); }},
      {"a request of a new size",
       [new_bytes = 32 * kMiB](Stage& stage, const Block&) mutable {
         (void)stage.take(0, new_bytes += 2 * kMiB);
       }},
      {"a request that fails", [](Stage& stage, const Block&) { stage.fail(0); }},
  };
  if (scene.plugin.record_stream != nullptr) {
    parts.push_back({"a free after record_stream", [](Stage& stage, const Block& block) {
                       stage.use_elsewhere(block, 1);
                       stage.give(block, {stage.stream(1)});
                     }});
  }
  if (scene.plugin.trim != nullptr) {
    parts.push_back({"a trim", [trim = scene.plugin.trim](Stage&, const Block&) { trim(); }});
  }
  return parts;
}

// The other thread makes several: on its own stream and on the first one's, and in the second part
// the cache is emptied in between.
std::vector<Part> second_parts(const Scene& scene) {
  const auto use = [](Stage& stage, std::size_t stream) {
    const Block blocks[] = {stage.take(stream), stage.take(stream), stage.take(stream)};
    for (const Block& block : blocks) stage.give(block);
  };
  return {{"requests and frees",
           [use](Stage& stage, const Block&) {
             use(stage, 1);
             use(stage, 0);
           }},
          {"requests, frees and a failed request",
           [use, trim = scene.plugin.trim](Stage& stage, const Block&) {
             use(stage, 1);
             stage.fail(1);
             if (trim != nullptr) trim();
             use(stage, 1);
           }}};
}

std::string failures_of(const simcu::Interleaving& run, const FailedCalls& usual) {
  for (const std::pair<std::string, int>& call : run.failed_calls) {
    if (usual.contains(call)) continue;
    return fmt::format("{} failed with {}", call.first,
                       cudaGetErrorName(static_cast<cudaError_t>(call.second)));
  }
  return {};
}

// One order of the two threads. What was seen of the blocks; empty where all is right.
std::string try_order(Stage& stage, const Part& first, const Part& second, std::uint64_t nth,
                      simcu::Interleaving& run) {
  const Block block = stage.prepare();
  run = simcu::interleave([&] { first.run(stage, block); }, [&] { second.run(stage, block); }, nth);
  const std::string seen = stage.seen();
  stage.clear();
  return seen;
}

// One thread after the other, many times: what is wrong then is no matter of threads, and other
// rules name it. Calls that fail then are usual.
void expect_right_in_turn(Stage& stage, const std::vector<Part>& firsts,
                          const std::vector<Part>& seconds, FailedCalls& usual) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    for (const Part& first : firsts) {
      for (const Part& second : seconds) {
        simcu::Interleaving run;
        const std::string seen = try_order(stage, first, second, kNowhere, run);
        usual.insert(run.failed_calls.begin(), run.failed_calls.end());
        if (!seen.empty()) {
          throw NotApplicable{"it is wrong with one call after the other already: " + seen};
        }
      }
    }
  }
}

struct Search {
  std::uint64_t place_count = 0;
  std::uint64_t waited_count = 0;
};

// Every place of one pair. Where the second thread had to wait, the two go on as they happen to: a
// fault that is seen without that is the better explanation.
void search_pair(Stage& stage, const Part& first, const Part& second, const FailedCalls& usual,
                 Search& search) {
  std::string seen_after_wait;
  for (std::uint64_t nth = 0; nth < kPlacesMax; ++nth) {
    simcu::Interleaving run;
    std::string seen = try_order(stage, first, second, nth, run);
    if (!run.stopped) break;
    if (seen.empty()) seen = failures_of(run, usual);
    ++search.place_count;
    search.waited_count += run.second_waited ? 1 : 0;
    if (seen.empty()) continue;
    const std::string text =
        fmt::format("{} stood at {}; another thread made {}{}: {}", first.text, run.place,
                    second.text, run.second_waited ? ", waited, and both went on" : "", seen);
    if (!run.second_waited) throw Broken{text};
    if (seen_after_wait.empty()) seen_after_wait = text;
  }
  expect(seen_after_wait.empty(), seen_after_wait);
}

}  // namespace

std::string preemption(Scene& scene) {
  const std::vector<Part> firsts = first_parts(scene);
  const std::vector<Part> seconds = second_parts(scene);
  const Ballast ballast = device_free_bytes() > kLeftBytes ? Ballast(kLeftBytes) : Ballast();
  FailedCalls usual;
  Search search;
  for (const std::uint64_t block_bytes : kBlockBytes) {
    Stage stage(scene, block_bytes);
    expect_right_in_turn(stage, firsts, seconds, usual);
    for (const Part& first : firsts) {
      for (const Part& second : seconds) {
        search_pair(stage, first, second, usual, search);
        if (scene.plugin.renew != nullptr) scene.plugin.renew();
      }
    }
  }
  return fmt::format("stopped at {} places; the other thread had to wait at {}", search.place_count,
                     search.waited_count);
}

}  // namespace allocmark::conformance::checks
