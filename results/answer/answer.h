// The question that users come with, answered once per experiment: which setting avoids running out
// of memory, and what does it cost per step, or per request of a server? Terminal, report.md and
// page lay out what is decided here, and decide nothing again. Flows in: a group of cells; flows
// out: a ranking, and sentences that say only what the numbers support. Neither times nor checks
// allocators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/columns/columns.h"

namespace allocmark {

enum class Outcome : std::uint8_t { Ok, Oom, None };  // None: no numbers

[[nodiscard]] Outcome outcome_of(const CellResult& cell);
[[nodiscard]] std::string_view to_string(Outcome outcome);

// What a user pays with a setting, and what settings are ranked by. The first that the group's
// cells have, in this order.
enum class CostMetric : std::uint8_t { RequestP99, WallPerStep, TimePerStep, TimePerPass };

struct CostWords {
  std::string_view name;   // "allocator time per step"
  std::string_view field;  // of the cell, where results/DEFINITIONS.md defines it
  std::string_view per;    // " per step", after a time
};
[[nodiscard]] CostWords cost_words(CostMetric metric);

// The cost of one cell. Its range spans the timed passes; without one a difference may be noise.
struct CellCost {
  double value_ns = 0;
  std::optional<double> low_ns = std::nullopt, high_ns = std::nullopt;
  bool enough_samples = true;  // false: a percentile of too few requests
  std::uint64_t pass_count = 0;
  std::uint64_t dear_pass_count = 0;  // that cost more than twice the cheapest
  double mean_ns = 0;                 // over the passes; 0 without a range
  // Its passes share what they were disturbed by, so that their range says less than two runs do.
  bool is_settled = false;
  double step_ns = 0;         // of a step with its kernels, for a time per step; 0 where not known
  double mean_step_ns = 0;    // of the steps on a simulated, idle device; 0 where that is not known
  double equal_ratio = 1.15;  // costs within it of each other may be equal
  double added_ns = 0;        // of a wall time, what the setting adds to the program's own step
  // What jobs really lost where added_ns was said (kLostOnCard).
  double lost_low_ns = 0, lost_high_ns = 0;

  // What settings are ranked by: the value, or the mean where some passes are dear.
  [[nodiscard]] double rank_ns() const;
};
[[nodiscard]] std::optional<CellCost> cost_of(const CellResult& cell, CostMetric metric);

// Of the runs of jobs in PyTorch on a card, 9 of 10 lost between these multiples of what was said,
// give or take this share of a step (results/TIMES.md, "The device's work").
struct LostOnCard {
  double low_factor, high_factor, step_share;
};
inline constexpr LostOnCard kLostOnCard{0.8, 1.5, 0.15};

// Two runs of one setting differ by less than this in 19 of 20 cells.
inline constexpr double kEqualCostRatio = 1.15;
// And in wall time of a step, most of which is the program's own, by less than this.
inline constexpr double kEqualWallRatio = 1.01;

// Whether memory decides between two costs: they are within 15 % of each other, their ranges are
// known, and these lie less than 5 % apart or are of settled times.
[[nodiscard]] bool are_equal(const CellCost& left, const CellCost& right);

// Whether nothing is to be claimed of a difference: the ranges lie less than 5 % apart and neither
// cost is more than twice the other, or the costs are within 15 % and the ranges are not known or
// of settled times.
[[nodiscard]] bool may_be_noise(const CellCost& left, const CellCost& right);

// A cell that served every request.
struct RankedCell {
  const CellResult* cell = nullptr;
  std::optional<CellCost> cost = std::nullopt;
  std::optional<double> difference_ns = std::nullopt;  // to the baseline
  bool may_be_noise = false;                           // that difference
  bool range_known = true;  // of both; else the difference has a "?", too
};

enum class AnswerVerdict : std::uint8_t {
  Impossible,  // the program's own live memory exceeds the capacity
  Rescued,     // the baseline ran out of memory and another cell did not
  Unrescued,   // it did, and so did all others
  Served,      // it served every request
  NoBaseline   // it has no numbers
};
[[nodiscard]] std::string_view to_string(AnswerVerdict verdict);

struct Answer {
  AnswerVerdict verdict = AnswerVerdict::NoBaseline;
  CostMetric metric = CostMetric::TimePerPass;
  // PyTorch's allocator: "caching", or "caching@2.10" where that is the only release of it here.
  std::string baseline_allocator = std::string(kBaselineAllocator);
  const CellResult* baseline = nullptr;  // that one, unset; null without numbers
  std::optional<CellCost> baseline_cost = std::nullopt;
  // What a user of PyTorch can set, and what he cannot; the best first.
  std::vector<RankedCell> settable = {}, others = {};
  std::vector<const CellResult*> with_oom = {}, not_measured = {};
  // Largest sum of live requests of the whole trace, without any rounding, and the room for it.
  std::uint64_t needed_bytes = 0, capacity_bytes = 0;
  const CellResult* wasteful = nullptr;  // reserves far more than is requested, most of all
  // Of those that a user of PyTorch can set and that served every request: reserves least.
  const CellResult* leanest = nullptr;

  // The first of settable, where the baseline failed.
  [[nodiscard]] const RankedCell* rescuer() const;
};
[[nodiscard]] Answer find_answer(const CellGroup& group);

// Whether the cell's allocator is this one or a release of it: "caching@2.10" of "caching".
[[nodiscard]] bool is_release_of(const CellKey& key, std::string_view allocator);

// The shell line that makes PyTorch use this setting; empty where no setting does.
[[nodiscard]] std::string line_to_paste(const CellKey& key);

// How text is escaped for where it is printed.
struct TextStyle {
  std::string (*name)(std::string_view);   // names and config strings
  std::string (*plain)(std::string_view);  // everything else
};
[[nodiscard]] TextStyle terminal_style();
[[nodiscard]] TextStyle markdown_style();

// "caching unset" or "caching max_split_size_mb:128".
[[nodiscard]] std::string setting_name(const CellKey& key, const TextStyle& style);

// The experiment's answer in one sentence: workload, capacity, what failed, what helps, its cost.
[[nodiscard]] std::string answer_sentence(const CellGroup& group, const Answer& answer,
                                          const TextStyle& style);

// The same for a whole run: the sentence of its only experiment, or of the only
// one in which something failed, or a count over all.
struct RunAnswer {
  std::string sentence;
  std::string paste;  // empty where there is nothing to set
};
[[nodiscard]] RunAnswer run_answer(std::span<const CellResult> cells, const TextStyle& style);

// The whole answer, one thought a line. Lines of a list begin with "- ".
[[nodiscard]] std::vector<std::string> answer_lines(const CellGroup& group, const Answer& answer,
                                                    const TextStyle& style);

// A ranked cell's cost in words: "0.80 ms per step (0.79 to 0.82), +0.70 ms against unset".
[[nodiscard]] std::string cost_text(const RankedCell& ranked, const Answer& answer);
// "12 of 6000 requests failed (fragmentation 12)".
[[nodiscard]] std::string failure_text(const CellResult& cell);

// Whether a cell of the group ran out of memory, has no numbers, wastes memory or grows: where none
// does,
// there is nothing to decide.
[[nodiscard]] bool needs_answer(const CellGroup& group);

// How to read the marks of the answers; plain text on one line.
[[nodiscard]] std::string_view answer_legend();

// What the experiment was: "train:x, capacity 1.05x (3.2 GiB), device sim:h200, seed 0, on OOM
// skip".
[[nodiscard]] std::string group_title(const CellGroup& group, const TextStyle& style);

}  // namespace allocmark
