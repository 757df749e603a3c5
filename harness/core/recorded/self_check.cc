#include "harness/core/recorded/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "allocators/caching/sizes.h"
#include "harness/core/recorded/recorded_replay.h"

namespace allocmark {
namespace {

using caching::BlockState;
using caching::SegmentInfo;

constexpr std::uint64_t kEntriesMax = 20'000'000;  // replayed in all while the heap is being found
// Pools of a search. Many of them explain the placements of a release whose rules are others, so
// few are guessed at first where the file shows no private pool.
constexpr std::uint32_t kPoolsMax = 64;
constexpr std::uint32_t kFewPools = 4;

// Finds the block that may end later than it was thought to; false where there is none.
bool enlarge(const StartHeap& heap, const caching::Settings& settings,
             const RecordedReplay::Spurious& spurious, KnownExtents* known) {
  if (settings.expandable_segments || spurious.size_bytes < spurious.wanted_bytes) return false;
  const std::uint64_t more_bytes =
      spurious.size_bytes - spurious.wanted_bytes + caching::kBlockSizeMin;
  for (const auto& [pool, segments] : heap.pools) {
    for (const SegmentInfo& segment : segments) {
      if (segment.kind == caching::PoolKind::Small || spurious.address < segment.address ||
          spurious.address >= segment.address + segment.total_bytes)
        continue;
      for (const caching::BlockInfo& block : segment.blocks) {
        if (block.state == BlockState::Inactive ||
            block.address + block.size_bytes != spurious.address)
          continue;
        const std::uint64_t size_bytes = block.size_bytes + more_bytes;
        const std::uint64_t needed_bytes = caching::round_request(block.requested_bytes, settings);
        if (size_bytes > needed_bytes + caching::kSmallSizeMax) return false;
        (*known)[block.address] = size_bytes;
        return true;
      }
    }
  }
  return false;
}

// Finds out, replay by replay, what the history does not say, and then checks. A block of the large
// pool may have up to 1 MiB beyond its request, and the history does not say how much. Where the
// replay puts a request behind such a block and PyTorch did not, the free memory there was smaller:
// the block gets the difference, and the replay begins again.
class GuessSearch {
 public:
  // A file that shows no private pool is searched for few of them, unless many are asked for:
  // enough pools explain placements by other rules too. History and settings have to outlive this.
  GuessSearch(const DeviceHistory& history, const RecordedSettings& settings, bool many_pools)
      : history_(history), settings_(settings), guess_{.pools = final_pools(history)} {
    // Those that the addresses of expandable segments tell.
    const auto first = static_cast<std::uint32_t>(history.snapshot().pools.size());
    pool_end_ = first;
    for (const auto& [growth, pool] : guess_.pools) {
      guessed_count_ += pool >= first ? 1 : 0;
      pool_end_ = std::max(pool_end_, pool + 1);
    }
    pools_max_ = many_pools || pool_end_ > 1 ? kPoolsMax : kFewPools;
  }

  // The check, unless it is known that no guess explains every placement: count() then says how
  // many are equal.
  [[nodiscard]] std::optional<SelfCheck> explain() {
    std::optional<SelfCheck> check = find_out();
    if (check) finish(&*check);
    return check;
  }
  // To the end, with the guess that came furthest.
  [[nodiscard]] SelfCheck count() {
    SelfCheck check = replay_whole();
    finish(&check);
    return check;
  }

 private:
  struct Attempt {
    StartHeap heap;
    SelfCheck check;  // up to the first difference
    std::optional<RecordedReplay::Spurious> spurious;
    std::uint64_t difference_index = 0;
    bool served_failed = false;
  };

  void finish(SelfCheck* check) const {
    check->guessed_pool_count = guessed_count_;
    check->names_private_pool = history_.snapshot().pools.size() > 1;
    check->pools = guess_.pools;
    check->frees_waited = guess_.frees_waited;
    check->few_pools_guessed = pools_max_ == kFewPools;
  }

  [[nodiscard]] std::optional<SelfCheck> find_out() {
    while (replayed_ < kEntriesMax) {
      Attempt attempt = replay(guess_);
      // Without a difference it came to the end.
      if (attempt.check.first_difference.empty()) return std::move(attempt.check);
      if (attempt.served_failed && !guess_.frees_waited) {
        guess_.frees_waited = true;
        continue;
      }
      if (!attempt.spurious) return std::nullopt;
      if (enlarge(attempt.heap, settings_.settings, *attempt.spurious, &known_)) continue;
      if (!guess_pool(*attempt.spurious)) return std::nullopt;
    }
    return replay_whole();  // the last guess was not tried yet
  }

  [[nodiscard]] SelfCheck replay_whole() const {
    RecordedReplay replay(history_, settings_, guess_);
    return replay.run(rebuild_start_heap(history_, settings_.settings, known_), true);
  }

  [[nodiscard]] Attempt replay(const RecordedReplay::Guess& guess) {
    Attempt attempt{.heap = rebuild_start_heap(history_, settings_.settings, known_),
                    .check = {},
                    .spurious = {}};
    RecordedReplay replay(history_, settings_, guess);
    attempt.check = replay.run(attempt.heap, false);
    attempt.spurious = replay.spurious();
    attempt.difference_index = replay.difference_index();
    attempt.served_failed = replay.served_failed();
    replayed_ += attempt.difference_index + 1;
    return attempt;
  }

  [[nodiscard]] bool guess_pool(const RecordedReplay::Spurious& spurious);
  [[nodiscard]] std::vector<std::uint64_t> growth_of_capture(std::uint64_t growth) const;

  const DeviceHistory& history_;
  const RecordedSettings& settings_;
  RecordedReplay::Guess guess_;
  KnownExtents known_;
  std::uint64_t replayed_ = 0;
  std::uint64_t guessed_count_ = 0;
  std::uint32_t pool_end_ = 1;   // first that is neither named nor guessed
  std::uint32_t pools_max_ = 0;  // that are guessed at most
};

// The segments whose pool nobody knows that were taken on one stream between two calls of
// empty_cache, around this one. torch.cuda.graph() empties the cache before it captures, so they
// are of one graph.
std::vector<std::uint64_t> GuessSearch::growth_of_capture(std::uint64_t growth) const {
  const auto ends = [&](std::uint64_t i) {
    return is_release(history_[i].action) && i + 1 < history_.size() &&
           !is_release(history_[i + 1].action);
  };
  std::uint64_t begin = growth;
  while (begin > 0 && !ends(begin - 1)) --begin;
  std::vector<std::uint64_t> found;
  for (std::uint64_t i = begin; i < history_.size() && (i <= growth || !ends(i)); ++i) {
    const SnapshotEntry& entry = history_[i];
    if (is_growth(entry.action) && !entry.has_pool && entry.stream == history_[growth].stream &&
        !guess_.pools.contains(i))
      found.push_back(i);
  }
  return found;
}

// Where PyTorch took or used one segment although another had room, the two are of different pools.
// Of all that would explain it, what keeps the placements equal for longest is taken: one segment,
// those of a capture, or those that went back together, of a new pool or of one that is known.
bool GuessSearch::guess_pool(const RecordedReplay::Spurious& spurious) {
  RecordedReplay::Guess best;
  std::uint64_t best_index = spurious.entry_index;
  std::uint32_t best_pool = 0;
  for (const std::uint64_t growth : {spurious.growth_index, spurious.chosen_growth_index}) {
    if (growth == kNoGrowth || history_[growth].has_pool) continue;
    for (const auto& group : {spurious.given_back, growth_of_capture(growth), {growth}}) {
      if (group.empty()) continue;
      const std::uint32_t last = std::min(pool_end_, pools_max_);
      for (std::uint32_t pool = last; pool > 0 && replayed_ < kEntriesMax; --pool) {
        RecordedReplay::Guess guess = guess_;
        for (const std::uint64_t one : group) guess.pools[one] = pool;
        const Attempt attempt = replay(guess);
        const std::uint64_t index = attempt.difference_index;
        if (index <= best_index) continue;
        best_index = index;
        best_pool = pool;
        best = std::move(guess);
        // A new pool that explains a whole capture needs no further thought.
        if (pool == last && group.size() > 1 && index > group.back()) break;
      }
      if (best_pool == pool_end_) break;
    }
    if (best_pool == pool_end_) break;
  }
  if (best.pools.empty()) return false;
  guessed_count_ += best.pools.size() - guess_.pools.size();
  pool_end_ = std::max(pool_end_, best_pool + 1);
  guess_ = std::move(best);
  return true;
}

// One release's rules, held to the recording.
struct Trial {
  RecordedSettings settings;
  GuessSearch search;
  std::optional<SelfCheck> check = std::nullopt;
  Trial(const DeviceHistory& history, const SnapshotSettings& recorded, const caching::Rules& rules)
      : settings(recorded_settings(recorded, rules)), search(history, settings, false) {}
  [[nodiscard]] bool is_right() const { return check && check->complete(); }
};

// The first rules, and those that choose otherwise among equal blocks, the newest first; until some
// explain everything. Only where none do is it counted how many placements each explains.
std::deque<Trial> try_rules(const DeviceHistory& history, const SnapshotSettings& recorded,
                            const caching::Rules& first) {
  std::vector<const caching::Rules*> order{&first};
  for (const caching::Rules& rules : caching::all_rules() | std::views::reverse)
    order.push_back(&rules);
  std::set<caching::TieBreak> tried;
  std::deque<Trial> trials;
  for (const caching::Rules* const rules : order) {
    if (!tried.insert(rules->tie_break).second) continue;
    Trial& trial = trials.emplace_back(history, recorded, *rules);
    trial.check = trial.search.explain();
    if (trial.is_right()) return trials;
  }
  for (Trial& trial : trials) {
    if (!trial.check) trial.check = trial.search.count();
  }
  return trials;
}

}  // namespace

std::optional<PoolsOfGrowth> find_pools(const DeviceHistory& history) {
  constexpr std::uint64_t kUnseenEntriesMax = 100'000;
  const bool shows_pool = history.snapshot().pools.size() > 1;
  if (!history.facts().has_growth || (!shows_pool && history.size() > kUnseenEntriesMax)) return {};
  for (std::uint64_t i = 0; i < history.size(); ++i) {
    if (history[i].has_pool) return {};
  }
  const RecordedSettings settings =
      recorded_settings(history.snapshot().settings, caching::recorded_rules());
  std::optional<SelfCheck> check = GuessSearch(history, settings, false).explain();
  if (!check || !check->complete() || check->guessed_pool_count == 0) return {};
  return std::move(check->pools);
}

Recognised recognise(const DeviceHistory& history, const SnapshotSettings& recorded,
                     const caching::Rules* release) {
  const caching::Rules& first = release == nullptr ? caching::recorded_rules() : *release;
  std::deque<Trial> trials = try_rules(history, recorded, first);
  const bool is_explained = trials.back().is_right();
  Trial* best = &trials.front();
  if (release == nullptr) {
    best = is_explained ? &trials.back()
                        : &*std::ranges::max_element(trials, {}, [](const Trial& trial) {
                            return trial.check->equal_count;
                          });
  }
  if (!best->check) best->check = best->search.count();
  // Where other rules give the placements with few pools, those are the recorded ones.
  if (!is_explained && best->check->few_pools_guessed) {
    const RecordedSettings settings = recorded_settings(recorded, first);
    std::optional<SelfCheck> many = GuessSearch(history, settings, true).explain();
    if (many && many->complete()) return {.settings = settings, .check = std::move(*many)};
  }
  return {.settings = std::move(best->settings), .check = std::move(*best->check)};
}

std::string to_text(const SelfCheck& check) {
  if (check.placement_count == 0)
    return "self-check: the history has no request that was served; nothing could be compared\n";
  if (check.complete()) {
    std::string text = fmt::format(
        "self-check: 100 % of {} placements equal: the rest of this answer can be trusted\n",
        check.placement_count);
    if (check.restored_count > 0) {
      text += fmt::format("  {} of them are blocks that a checkpoint of a graph's pool put back\n",
                          check.restored_count);
    }
    if (check.guessed_pool_count > 0) {
      text += fmt::format("  {}; placements say that {} segment{} before it {} of private pools\n",
                          check.names_private_pool
                              ? "pools are named at the end only"
                              : "every segment of the end is of the common pool (0, 0)",
                          check.guessed_pool_count, check.guessed_pool_count == 1 ? "" : "s",
                          check.guessed_pool_count == 1 ? "was" : "were");
    }
    return text;
  }
  // Rounded down: 100 % is said only where all are equal.
  const double percent = std::floor(1000.0 * static_cast<double>(check.equal_count) /
                                    static_cast<double>(check.placement_count)) /
                         10;
  std::string text = fmt::format(
      "self-check: {:.1f} % of {} placements equal: the replay is not the recorded allocator, so "
      "what follows is an estimate\n",
      check.equal_count == check.placement_count ? 100.0 : percent, check.placement_count);
  if (!check.first_difference.empty())
    text += fmt::format("  first difference: {}\n", check.first_difference);
  if (!check.final_heap_equal)
    text += "  the blocks in use at the end stand elsewhere than the snapshot shows\n";
  for (const std::string& doubt : check.doubts) text += fmt::format("  {}\n", doubt);
  return text;
}

}  // namespace allocmark
