#include "harness/core/recorded/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "allocators/caching/sizes.h"
#include "harness/core/recorded/recorded_replay.h"

namespace allocmark {
namespace {

using caching::BlockState;
using caching::SegmentInfo;

constexpr std::uint64_t kEntriesMax = 20'000'000;  // replayed in all while the heap is being found
constexpr std::uint32_t kGuessedPoolsMax = 4;

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

// Finds out, replay by replay, what the history does not say, and then checks.
class GuessSearch {
 public:
  GuessSearch(const DeviceHistory& history, const RecordedSettings& settings)
      : history_(history), settings_(settings), guess_{.pools = final_pools(history)} {}

  [[nodiscard]] SelfCheck run() {
    SelfCheck check = find_out();
    check.guessed_pool_count = guessed_count_;
    check.names_private_pool = history_.snapshot().pools.size() > 1;
    check.pools = guess_.pools;
    check.frees_waited = guess_.frees_waited;
    return check;
  }

 private:
  struct Attempt {
    StartHeap heap;
    SelfCheck check;  // up to the first difference
    std::optional<RecordedReplay::Spurious> spurious;
    bool served_failed = false;
  };

  [[nodiscard]] SelfCheck find_out() {
    while (replayed_ < kEntriesMax) {
      Attempt attempt = replay(guess_);
      // Without a difference it came to the end.
      if (attempt.check.first_difference.empty()) return std::move(attempt.check);
      if (attempt.served_failed && !guess_.frees_waited) {
        guess_.frees_waited = true;
        continue;
      }
      if (!attempt.spurious) break;
      if (enlarge(attempt.heap, settings_.settings, *attempt.spurious, &known_)) continue;
      if (!guess_pool(*attempt.spurious)) break;
    }
    RecordedReplay last(history_, settings_, guess_);
    return last.run(rebuild_start_heap(history_, settings_.settings, known_), true);
  }

  [[nodiscard]] Attempt replay(const RecordedReplay::Guess& guess) {
    Attempt attempt{.heap = rebuild_start_heap(history_, settings_.settings, known_),
                    .check = {},
                    .spurious = {}};
    RecordedReplay replay(history_, settings_, guess);
    attempt.check = replay.run(attempt.heap, false);
    attempt.spurious = replay.spurious();
    attempt.served_failed = replay.served_failed();
    replayed_ += attempt.spurious ? attempt.spurious->entry_index + 1 : history_.size();
    return attempt;
  }

  [[nodiscard]] bool guess_pool(const RecordedReplay::Spurious& spurious);

  const DeviceHistory& history_;
  const RecordedSettings& settings_;
  RecordedReplay::Guess guess_;
  KnownExtents known_;
  std::uint64_t replayed_ = 0;
  std::uint64_t guessed_count_ = 0;
};

// Where PyTorch took or used one segment although another had room, the two are of different pools.
// Of all that would explain it, what keeps the placements equal for longest is taken.
bool GuessSearch::guess_pool(const RecordedReplay::Spurious& spurious) {
  const auto first = static_cast<std::uint32_t>(history_.snapshot().pools.size());
  RecordedReplay::Guess best;
  std::uint64_t best_index = spurious.entry_index;
  for (const std::uint64_t growth : {spurious.growth_index, spurious.chosen_growth_index}) {
    if (growth == kNoGrowth || history_[growth].has_pool) continue;
    for (std::uint32_t pool = first; pool < first + kGuessedPoolsMax; ++pool) {
      RecordedReplay::Guess guess = guess_;
      guess.pools[growth] = pool;
      const Attempt attempt = replay(guess);
      const std::uint64_t index =
          attempt.spurious ? attempt.spurious->entry_index : history_.size();
      if (index <= best_index) continue;
      best_index = index;
      best = std::move(guess);
    }
  }
  if (best.pools.empty()) return false;
  guessed_count_ += best.pools.size() > guess_.pools.size() ? 1 : 0;
  guess_ = std::move(best);
  return true;
}

}  // namespace

// A block of the large pool may have up to 1 MiB beyond its request, and the history does not say
// how much. Where the replay puts a request behind such a block and PyTorch did not, the free
// memory there was smaller: the block gets the difference, and the replay begins again.
SelfCheck check_recording(const DeviceHistory& history, const RecordedSettings& settings) {
  return GuessSearch(history, settings).run();
}

Recognised recognise(const DeviceHistory& history, const SnapshotSettings& recorded,
                     const caching::Rules* release) {
  Recognised best;
  const auto try_rules = [&](const caching::Rules& rules, bool first) {
    Recognised one{.settings = recorded_settings(recorded, rules), .check = {}};
    one.check = check_recording(history, one.settings);
    if (first || one.check.complete() || one.check.equal_count > best.check.equal_count)
      best = std::move(one);
  };
  try_rules(release == nullptr ? caching::recorded_rules() : *release, true);
  if (release != nullptr) return best;
  caching::TieBreak tried = caching::TieBreak::Address;
  const auto rules = caching::all_rules();
  for (auto at = rules.rbegin(); at != rules.rend() && !best.check.complete(); ++at) {
    if (at->tie_break == tried || at->tie_break == caching::TieBreak::Address) continue;
    tried = at->tie_break;
    try_rules(*at, false);
  }
  return best;
}

std::string to_text(const SelfCheck& check) {
  if (check.placement_count == 0)
    return "self-check: the history has no request that was served; nothing could be compared\n";
  if (check.complete()) {
    std::string text = fmt::format(
        "self-check: 100 % of {} placements equal: the rest of this answer can be trusted\n",
        check.placement_count);
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
