// Random programs from a seed; see program.h.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "base/bytes.h"
#include "base/random.h"
#include "harness/tools/parity/program.h"

namespace allocmark::caching {
namespace {

// Segment sizes are even, because they outlive a change of config and expandable segments need
// that.
constexpr std::array kConfs = {
    "",
    "max_split_size_mb:20",
    "max_split_size_mb:32,max_non_split_rounding_mb:40",
    "garbage_collection_threshold:0.5",
    "max_split_size_mb:24,garbage_collection_threshold:0.3",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:2,4:8,>:16],max_split_size_mb:64",
    "expandable_segments:True",
    "expandable_segments:True,garbage_collection_threshold:0.4",
    "expandable_segments:True,max_split_size_mb:24",
    "large_segment_size_mb:34,max_split_size_mb:40",
    "large_segment_size_mb:48,expandable_segments:True,roundup_power2_divisions:8",
    "expandable_segments:True,large_segment_size_mb:12,max_split_size_mb:16,garbage_collection_"
    "threshold:0.7"};

// Keys that the algorithm does not know, or that matter only when the program starts.
constexpr const char* kAsyncBackend = "backend:cudaMallocAsync";
constexpr std::array kFurtherConfs = {
    kAsyncBackend,
    "release_lock_on_cudamalloc:True,max_split_size_mb:40",
    "per_process_memory_fraction:0.6",
    "per_process_memory_fraction:0.5,garbage_collection_threshold:0.6,expandable_segments:True",
    "roundup_power2_divisions:[>:4],backend:native",
    "graph_capture_record_stream_reuse:True,pinned_use_background_threads:True",
    "pinned_use_cuda_host_register:True,pinned_num_register_threads:4,pinned_reserve_segment_size_"
    "mb:2",
    "max_split_size_mb:17592186044415,max_non_split_rounding_mb:64"};

// With keys that came after 2.11.
constexpr std::array kNewerConfs = {
    "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True",
    "throw_on_cudamalloc_oom:True,expandable_segments:True",
    "pinned_free_catch_all:True,max_split_size_mb:24",
    "pinned_max_round_threshold_mb:4,pinned_max_cached_size_mb:64,roundup_power2_divisions:4",
    "expandable_segments:True,expandable_segments_reserve:0.02",
    "expandable_segments_reserve:1G,expandable_segments:True,max_split_size_mb:32",
    "expandable_segments:True,expandable_segments_reserve:nonsense",
    "expandable_segments_reserve_by_class:[a:0.5,b:40G],expandable_segments:True"};

std::uint64_t random_size(Random& random) {
  switch (random.below(8)) {
    case 0:
      return random.between(1, 600);
    case 1:
    case 2:
      return random.between(1, kMiB);
    case 3:
      return 512 * random.between(1, 16);
    case 4:
      return random.between(kMiB, 10 * kMiB);
    case 5:
      return kMiB * random.between(1, 24);
    case 6:
      return std::uint64_t{1} << random.between(9, 25);
    default:
      return random.between(8 * kMiB, 70 * kMiB);
  }
}

// What a program's config strings are taken from.
struct Confs {
  ProgramVariety variety;
  const Rules& rules;

  // The backend `torch` starts with strictly read strings only.
  [[nodiscard]] std::string at_start(Random& random) const {
    while (true) {
      std::string conf = draw(random);
      if (!parse_strict(conf, rules).error) return conf;
    }
  }

  // What PyTorch takes. The backend is chosen once per process.
  [[nodiscard]] std::string at_run_time(Random& random) const {
    while (true) {
      std::string conf = draw(random);
      if (!conf.starts_with(kAsyncBackend) && parse_pytorch(conf, rules).accepted()) return conf;
    }
  }

 private:
  [[nodiscard]] std::string draw(Random& random) const {
    const bool further = variety == ProgramVariety::AllConfs && random.below(4) == 0;
    if (!further) return kConfs[random.below(kConfs.size())];
    // Releases up to the one that goldens were recorded with keep their programs.
    const std::size_t count =
        kFurtherConfs.size() + (rules.minor > kRecordedMinor ? kNewerConfs.size() : 0);
    const std::size_t at = random.below(count);
    return at < kFurtherConfs.size() ? kFurtherConfs[at] : kNewerConfs[at - kFurtherConfs.size()];
  }
};

// The steps of private pools in a program, drawn apart from the others, so that these stay what
// they are without pools. Left out is what PyTorch answers with an internal error, and what depends
// on the addresses of its own objects: the order of several frees that waited for the end of a
// pool's routing, where the order of blocks depends on it, and uses that came while requests were
// routed and are forgotten at a later such time.
class PoolSteps {
 public:
  PoolSteps(std::uint64_t seed, const Rules& rules, std::uint32_t stream_count,
            std::vector<allocmark::Event>& events)
      : random_(seed + 0x9E3779B97F4A7C15u),
        rules_(rules),
        stream_count_(stream_count),
        events_(events) {}

  // Now and then one step, or more.
  void add() {
    if (random_.below(100) >= 4) return;
    switch (random_.below(10)) {
      case 0:
        if (used_count() < kUsedMax) create();
        return;
      case 1:
      case 2:
        return begin();
      case 3:
      case 4:
        return end();
      case 5:
        return release();
      case 6:
      case 7:
        return capture();
      case 8:
        return random_.below(4) == 0 ? never_split() : turn();
      default:
        return empty();
    }
  }

  void note_record(std::uint64_t block) {
    recorded_.insert(block);
    if (captures()) recorded_in_capture_.insert(block);
  }

  // Whether the block may be given back now; notes that it is.
  [[nodiscard]] bool may_free(std::uint64_t block) {
    const bool waits = captures() && recorded_.contains(block);
    if (!captures() && recorded_in_capture_.contains(block)) return false;
    if (waits && rules_.tie_break == TieBreak::BlockOrder && deferred_count_ > 0) return false;
    deferred_count_ += waits ? 1 : 0;
    recorded_.erase(block);
    recorded_in_capture_.erase(block);
    return true;
  }

 private:
  static constexpr std::size_t kUsedMax = 4;

  struct Pool {
    std::uint64_t id = 0;
    int use_count = 0;
    bool begun = false;
    bool captures = false;
    bool every_stream = false;
    std::uint32_t stream = 0;  // of the captured graph, and of requests where not every_stream
    bool on_oom = false;
  };

  [[nodiscard]] bool captures() const {
    return std::ranges::any_of(pools_, rules_.pools_capture ? &Pool::begun : &Pool::captures);
  }
  [[nodiscard]] std::size_t used_count() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(pools_, [](const Pool& pool) { return pool.use_count > 0; }));
  }
  // A random one of those that it is true for, or null.
  template <typename Predicate>
  [[nodiscard]] Pool* any(Predicate chosen) {
    std::vector<Pool*> found;
    for (Pool& pool : pools_) {
      if (chosen(pool)) found.push_back(&pool);
    }
    return found.empty() ? nullptr : found[random_.below(found.size())];
  }

  void create() {
    pools_.push_back({.id = pools_.size() + 1, .use_count = 1});
    events_.push_back({.id = pools_.size(), .kind = EventKind::PoolCreate});
  }

  // A pool that serves when memory is out may not be routed to from some streams only.
  void begin() {
    Pool* pool = any([](const Pool& one) { return one.use_count > 0 && !one.begun; });
    if (pool == nullptr && used_count() < kUsedMax) {
      pools_.push_back({.id = pools_.size() + 1});
      pool = &pools_.back();
    }
    if (pool == nullptr) return;
    pool->every_stream = pool->on_oom || random_.below(2) == 0;
    pool->stream = static_cast<std::uint32_t>(random_.below(stream_count_));
    pool->begun = true;
    ++pool->use_count;
    events_.push_back({.id = pool->id,
                       .size_bytes = pool->every_stream ? 1u : 0u,
                       .stream = pool->every_stream ? 0 : pool->stream,
                       .kind = EventKind::PoolBegin});
  }

  void end() {
    Pool* pool = any([](const Pool& one) { return one.begun; });
    if (pool == nullptr) return;
    if (pool->captures) end_capture(*pool);
    pool->begun = false;
    events_.push_back({.id = pool->id, .kind = EventKind::PoolEnd});
    if (!captures()) deferred_count_ = 0;
  }

  // A capture begins or ends, one at a time on each stream.
  void capture() {
    Pool* pool = any([](const Pool& one) { return one.begun; });
    if (pool == nullptr) return;
    if (pool->captures) return end_capture(*pool);
    if (std::ranges::any_of(
            pools_, [&](const Pool& one) { return one.captures && one.stream == pool->stream; }))
      return;
    pool->captures = true;
    events_.push_back({.id = pool->id, .stream = pool->stream, .kind = EventKind::CaptureBegin});
  }

  void end_capture(Pool& pool) {
    pool.captures = false;
    events_.push_back({.id = pool.id, .stream = pool.stream, .kind = EventKind::CaptureEnd});
    if (!captures()) deferred_count_ = 0;
  }

  void release() {
    Pool* pool = any(
        [](const Pool& one) { return one.use_count > 1 || (one.use_count == 1 && !one.begun); });
    if (pool == nullptr) return;
    if (pool->use_count == 1 && pool->on_oom) turn(*pool);
    --pool->use_count;
    events_.push_back({.id = pool->id, .kind = EventKind::PoolRelease});
  }

  void turn(Pool& pool) {
    pool.on_oom = !pool.on_oom;
    events_.push_back(
        {.id = pool.id, .size_bytes = pool.on_oom ? 1u : 0u, .kind = EventKind::PoolOnOom});
  }

  // At most one is on: PyTorch asks several in the order of a hash.
  void turn() {
    Pool* on = any([](const Pool& one) { return one.on_oom; });
    Pool* pool = on != nullptr ? on : any([](const Pool& one) {
      return one.use_count > 0 && (!one.begun || one.every_stream);
    });
    if (pool != nullptr) turn(*pool);
  }

  void never_split() {
    const Pool* pool = any([](const Pool& one) { return one.use_count > 0; });
    if (pool != nullptr) events_.push_back({.id = pool->id, .kind = EventKind::PoolNoSplit});
  }

  void empty() {
    const Pool* pool = any([](const Pool&) { return true; });
    if (pool == nullptr || (captures() && pool->use_count == 0)) return;
    events_.push_back({.id = pool->id, .kind = EventKind::Trim});
  }

  Random random_;
  const Rules& rules_;
  std::uint32_t stream_count_;
  std::vector<allocmark::Event>& events_;
  std::vector<Pool> pools_;                                 // by id - 1
  std::set<std::uint64_t> recorded_, recorded_in_capture_;  // live blocks
  int deferred_count_ = 0;
};

}  // namespace

Program make_program(std::uint64_t seed, std::size_t step_count, ProgramVariety variety,
                     const Rules& rules) {
  const Confs confs{variety, rules};
  Random random(seed);
  Program program{.rules = &rules, .conf = confs.at_start(random)};
  program.capacity_bytes = random.between(100, 640) * kMiB;
  const auto streams = static_cast<std::uint32_t>(random.between(1, 3));
  // Mostly small heaps, which reach more different states; now and then one that fills several
  // chunks of a set.
  const std::uint64_t live_max =
      random.below(16) == 0 ? random.between(200, 600) : random.between(4, 60);
  const bool reconfigures = random.below(4) == 0 && !program.conf.starts_with(kAsyncBackend);
  std::vector<std::uint64_t> live;
  std::uint64_t id = 0;
  const auto add = [&](const allocmark::Event& event) { program.events.push_back(event); };
  if (random.below(2) == 0) {
    program.change({.conf = {}, .limit_bytes = random.between(60, 400) * kMiB});
  }
  const bool has_pools = variety == ProgramVariety::AllConfs && seed % 2 == 1 &&
                         !program.conf.starts_with(kAsyncBackend);
  PoolSteps pools(seed, rules, streams, program.events);
  while (program.events.size() < step_count) {
    if (has_pools) pools.add();
    const std::uint64_t kind = random.below(1000);
    const auto stream = static_cast<std::uint32_t>(random.below(streams));
    if (kind < 3) {
      add({.kind = EventKind::Trim});
    } else if (kind < 10) {
      add({.stream = stream, .kind = EventKind::Busy});
    } else if (kind < 20) {
      add({.kind = EventKind::Sync});
    } else if (kind < 22 && reconfigures) {
      program.change({.conf = confs.at_run_time(random), .limit_bytes = {}});
    } else if (kind < 24 && reconfigures) {
      const std::uint64_t limit = random.below(3) == 0 ? 0 : random.between(60, 400) * kMiB;
      program.change({.conf = {}, .limit_bytes = limit});
    } else if (kind < 80 && !live.empty()) {
      add({.id = live[random.below(live.size())], .stream = stream, .kind = EventKind::Record});
      pools.note_record(program.events.back().id);
    } else if (live.size() < live_max && (live.empty() || random.below(100) < 55)) {
      add({.id = ++id,
           .size_bytes = random_size(random),
           .stream = stream,
           .kind = EventKind::Alloc});
      live.push_back(id);
    } else {
      std::swap(live[random.below(live.size())], live.back());
      if (!pools.may_free(live.back())) {
        add({.kind = EventKind::Sync});
        continue;
      }
      add({.id = live.back(), .kind = EventKind::Free});
      live.pop_back();
    }
  }
  return program;
}

}  // namespace allocmark::caching
