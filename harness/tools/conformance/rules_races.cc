// Races of plain memory inside a plugin, by ThreadSanitizer. Threads call the plugin, and nothing
// of ours orders them: a lock between two calls would hide that the plugin has none. For that
// reason nothing is looked at here but what the detector says; the rule `threads` looks at blocks.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/random.h"
#include "harness/simcuda/simcu_test.h"
#include "harness/tools/conformance/race_detector.h"
#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance::checks {
namespace {

constexpr int kRacerCount = 4;
constexpr int kRacerStepCount = 4000;
constexpr std::uint64_t kRareSteps = 512;
// Then threads stop: what has raced may soon crash.
constexpr std::size_t kReportCountMax = 8;

// A thread stands still where no lock of the plugin orders it, so that others come meanwhile: after
// its calls, and within them at CUDA calls. Sleeping orders nothing.
void nap() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

class NapsInCalls {
 public:
  NapsInCalls() { SIMCU(simcu_watch_calls)(&NapsInCalls::saw, nullptr); }
  ~NapsInCalls() { SIMCU(simcu_watch_calls)(nullptr, nullptr); }
  NapsInCalls(const NapsInCalls&) = delete;
  NapsInCalls& operator=(const NapsInCalls&) = delete;

 private:
  static void saw(const char* /*api*/, int /*result*/, void* /*context*/) {
    thread_local int count = 0;
    if (++count % 4 == 0) nap();
  }
};

// What a thread does beside requests and frees: more CUDA calls, whose locks order threads, so that
// it comes second.
enum class Variety : std::uint8_t { RequestsAndFrees, Everything };

class Racer {
 public:
  Racer(Scene& scene, int index, std::span<const cudaStream_t> streams)
      : scene_(scene),
        index_(index),
        streams_(streams),
        random_(static_cast<std::uint64_t>(index) + 1) {}

  void run(Variety variety) {
    for (int i = 0; i < kRacerStepCount && race_report_count() < kReportCountMax; ++i) {
      if (variety == Variety::Everything && random_.below(kRareSteps) == 0) rare_step();
      if (own_.size() > 8 || (!own_.empty() && random_.below(2) == 0)) {
        give(variety);
      } else {
        take(512 * (1 + random_.below(4)));
      }
      if (random_.below(16) == 0) nap();
    }
  }
  [[nodiscard]] std::vector<Block> leave() { return std::exchange(own_, {}); }

 private:
  void take(std::uint64_t size_bytes) {
    const Block block = scene_.try_get(size_bytes, streams_[random_.below(streams_.size())]);
    if (block.pointer != nullptr) own_.push_back(block);
  }
  void give(Variety variety) {
    const Block block = own_.back();
    own_.pop_back();
    if (variety == Variety::Everything && scene_.plugin.record_stream != nullptr &&
        random_.below(16) == 0) {
      scene_.plugin.record_stream(block.pointer, streams_[random_.below(streams_.size())]);
    }
    scene_.give(block);
  }
  void rare_step() {
    switch ((random_.below(3) + static_cast<std::uint64_t>(index_)) % 3) {
      case 0:
        take(random_.below(64) * kMiB);
        break;
      case 1:
        if (const Block block = scene_.try_get(kAbsurdBytes); block.pointer != nullptr) {
          scene_.give(block);
        }
        (void)cudaGetLastError();
        break;
      default:
        if (scene_.plugin.trim != nullptr) scene_.plugin.trim();
    }
    nap();
  }

  Scene& scene_;
  const int index_;
  const std::span<const cudaStream_t> streams_;
  Random random_;
  std::vector<Block> own_;
};

// All at once, from a line that is none for the detector.
void race(const std::function<void(int index)>& body) {
  std::atomic<int> ready_count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kRacerCount; ++i) {
    threads.emplace_back([&, i] {
      ++ready_count;
      while (ready_count < kRacerCount) std::this_thread::yield();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Each frees what another one asked for.
void hand_over(Scene& scene) {
  std::mutex mutex;
  std::vector<Block> handed_over;
  race([&](int index) {
    for (int i = 0; i < kRacerStepCount / 8; ++i) {
      const Block own = scene.try_get(1024);
      Block other;
      {
        const std::scoped_lock lock(mutex);
        if (own.pointer != nullptr) handed_over.push_back(own);
        const std::size_t at = static_cast<std::size_t>(index) % (handed_over.size() + 1);
        if (at < handed_over.size()) {
          other = std::exchange(handed_over[at], handed_over.back());
          handed_over.pop_back();
        }
      }
      if (other.pointer != nullptr) scene.give(other);
    }
  });
  scene.give_all(handed_over);
}

void race_in_every_way(Scene& scene) {
  const cudaStream_t streams[] = {scene.make_stream(), scene.make_stream()};
  // The first requests and then the first frees of the process, for what is made on first use.
  // Locks in two orders are seen here, where they cannot stop each other yet.
  std::vector<Block> first(kRacerCount);
  race([&](int index) {
    first[static_cast<std::size_t>(index)] = scene.try_get(1024, streams[index % 2]);
  });
  race([&](int index) {
    const Block& block = first[static_cast<std::size_t>(index)];
    if (block.pointer != nullptr) scene.give(block);
  });
  for (const Variety variety : {Variety::RequestsAndFrees, Variety::Everything}) {
    if (!race_reports().empty()) return;
    std::optional<NapsInCalls> naps;
    if (variety == Variety::Everything) naps.emplace();
    std::vector<Racer> racers;
    for (int i = 0; i < kRacerCount; ++i) racers.emplace_back(scene, i, streams);
    race([&](int index) { racers[static_cast<std::size_t>(index)].run(variety); });
    for (Racer& racer : racers) {
      std::vector<Block> rest = racer.leave();
      scene.give_all(rest);
    }
  }
  if (race_reports().empty()) hand_over(scene);
}

}  // namespace

std::string races(Scene& scene) {
  if (!race_detector_runs()) {
    throw NotApplicable{
        "the plugin is not compiled with -fsanitize=thread: what two threads do to its own memory "
        "between CUDA calls is left to luck (rule threads)"};
  }
  race_in_every_way(scene);
  if (std::string seen = race_text(); !seen.empty()) throw Broken{std::move(seen)};
  return fmt::format("{} threads, {} steps each, under ThreadSanitizer", kRacerCount,
                     2 * kRacerStepCount);
}

}  // namespace allocmark::conformance::checks
