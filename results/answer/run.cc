// One sentence over all experiments of a run: how often the baseline failed, and which setting
// avoided that most often.
#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "results/answer/answer.h"
#include "results/answer/answer_parts.h"

namespace allocmark {
namespace {

// How often a setting rescued a job, and how often it was the best that did.
struct Rescues {
  const CellResult* cell = nullptr;
  std::size_t count = 0, best_count = 0;
};

struct Tally {
  std::string baseline_allocator;  // of all experiments, or "caching" for several releases of it
  std::size_t baseline_count = 0, failed_count = 0, impossible_count = 0, rescued_count = 0;
  std::map<std::string, Rescues> rescues;  // by the line to paste
};

void add(const Answer& answer, Tally* tally) {
  if (tally->baseline_allocator.empty()) tally->baseline_allocator = answer.baseline_allocator;
  if (tally->baseline_allocator != answer.baseline_allocator)
    tally->baseline_allocator = kBaselineAllocator;
  tally->impossible_count += answer.verdict == AnswerVerdict::Impossible ? 1 : 0;
  if (answer.baseline == nullptr) return;
  ++tally->baseline_count;
  tally->failed_count += outcome_of(*answer.baseline) == Outcome::Oom ? 1 : 0;
  if (answer.rescuer() == nullptr) return;
  ++tally->rescued_count;
  for (const RankedCell& one : answer.settable) {
    Rescues& rescues = tally->rescues[line_to_paste(one.cell->key)];
    if (rescues.cell == nullptr) rescues.cell = one.cell;
    ++rescues.count;
    rescues.best_count += &one == answer.rescuer() ? 1 : 0;
  }
}

const Rescues* most_often(const Tally& tally) {
  const auto found =
      std::ranges::max_element(tally.rescues, [](const auto& left, const auto& right) {
        return std::tie(left.second.count, left.second.best_count) <
               std::tie(right.second.count, right.second.best_count);
      });
  return found == tally.rescues.end() ? nullptr : &found->second;
}

std::string of_experiments(std::size_t count, std::size_t total) {
  return fmt::format("{} of {} experiments", count, total);
}

}  // namespace

RunAnswer run_answer(std::span<const CellResult> cells, const TextStyle& style) {
  const std::vector<CellGroup> groups = group_cells(cells);
  if (groups.empty()) return {.sentence = "Nothing was measured.", .paste = ""};
  Tally tally;
  std::vector<RunAnswer> failed;
  for (const CellGroup& group : groups) {
    const Answer answer = find_answer(group);
    const RankedCell* rescuer = answer.rescuer();
    const RunAnswer alone{.sentence = answer_sentence(group, answer, style),
                          .paste = rescuer == nullptr ? "" : line_to_paste(rescuer->cell->key)};
    if (groups.size() == 1) return alone;
    if (answer.verdict != AnswerVerdict::Served) failed.push_back(alone);
    add(answer, &tally);
  }
  // Where one experiment alone asks for a decision, it is the answer.
  if (failed.size() == 1) return failed.front();
  std::vector<const CellResult*> all;
  for (const CellResult& cell : cells) all.push_back(&cell);
  const std::string recorded = style.plain(recorded_failures(all));
  CellKey key;
  key.allocator = tally.baseline_allocator;
  const std::string name = setting_name(key, style);
  if (tally.baseline_count == 0) {
    return {.sentence = name + " has no numbers, so nothing can be compared with it.", .paste = ""};
  }
  if (tally.failed_count == 0) {
    return {.sentence =
                name +
                fmt::format(" serves every request in all {} experiments.", tally.baseline_count) +
                recorded,
            .paste = ""};
  }
  std::string text =
      name + " runs out of memory in " + of_experiments(tally.failed_count, tally.baseline_count);
  if (tally.impossible_count > 0) {
    text += fmt::format(", {} of them impossible (more live memory than capacity)",
                        tally.impossible_count);
  }
  const Rescues* best = most_often(tally);
  if (best == nullptr)
    return {.sentence = text + "; no setting measured helps." + recorded, .paste = ""};
  CellKey helping = best->cell->key;
  if (is_release_of(helping, kBaselineAllocator)) helping.allocator = tally.baseline_allocator;
  return {.sentence = text +
                      fmt::format("; {} serves every request in {} of them.",
                                  setting_name(helping, style), best->count) +
                      recorded,
          .paste = line_to_paste(best->cell->key)};
}

}  // namespace allocmark
