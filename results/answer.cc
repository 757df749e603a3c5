// Sorts a group's cells into those without an OOM, those with one and those without numbers, and
// writes each list out.
#include "results/answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/percentile.h"
#include "results/text.h"

namespace allocmark {
namespace {

// A list longer than this is cut and the rest counted; the table has them all.
constexpr std::size_t kListedMax = 6;

// What a cost ratio compares: the whole cell's value, the same per pass for its spread, and the
// samples behind it.
struct Cost {
  const char* name;
  OperationLatency CellResult::*latency;
  double LatencySummary::*value;
  double PassSummary::*pass_value;
  Percentile percentile;
};

constexpr std::array<Cost, 3> kCosts{{
    {"allocate P50", &CellResult::allocate, &LatencySummary::p50_ns, &PassSummary::allocate_p50_ns,
     kP50},
    {"allocate P99", &CellResult::allocate, &LatencySummary::p99_ns, &PassSummary::allocate_p99_ns,
     kP99},
    {"free P50", &CellResult::deallocate, &LatencySummary::p50_ns, &PassSummary::deallocate_p50_ns,
     kP50},
}};

struct Sorted {
  const CellResult* baseline = nullptr;  // the baseline allocator, unset, measured; may be null
  std::vector<const CellResult*> without_oom, with_oom, not_measured;
};

bool is_baseline(const CellResult& cell) {
  return cell.key.allocator == kBaselineAllocator && cell.key.conf.empty();
}

bool had_oom(const CellResult& cell) {
  return cell.status == CellStatus::OomStopped || cell.oom_count > 0 || cell.trial_oom_count > 0;
}

double allocate_p99(const CellResult& cell) {
  const LatencySummary& summary = cell.allocate.total;
  const bool known = summary.count > 0 && std::isfinite(summary.p99_ns);
  return known ? summary.p99_ns : std::numeric_limits<double>::infinity();
}

// Config strings of the baseline allocator come first, as they ask least of a user; then the
// cheapest.
bool comes_before(const CellResult* left, const CellResult* right) {
  const bool left_same = left->key.allocator == kBaselineAllocator;
  const bool right_same = right->key.allocator == kBaselineAllocator;
  if (left_same != right_same) return left_same;
  return allocate_p99(*left) < allocate_p99(*right);
}

Sorted sort_cells(const CellGroup& group) {
  Sorted sorted;
  for (const CellResult* cell : group.cells) {
    if (cell->key.allocator == kNullAllocator) continue;
    if (!is_measured(*cell) || cell->allocate_count == 0) {
      sorted.not_measured.push_back(cell);
      continue;
    }
    if (is_baseline(*cell)) {
      sorted.baseline = cell;
    } else {
      (had_oom(*cell) ? sorted.with_oom : sorted.without_oom).push_back(cell);
    }
  }
  std::stable_sort(sorted.without_oom.begin(), sorted.without_oom.end(), comes_before);
  return sorted;
}

std::optional<double> value_of(const CellResult& cell, const Cost& cost) {
  const LatencySummary& summary = (cell.*cost.latency).total;
  const double value = summary.*cost.value;
  if (summary.count == 0 || !std::isfinite(value) || value <= 0) return std::nullopt;
  return value;
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = 0;
};

Range pass_range(const CellResult& cell, const Cost& cost) {
  Range range;
  for (const PassSummary& pass : cell.passes) {
    const double value = pass.*cost.pass_value;
    if (!std::isfinite(value)) return {.low = 0, .high = std::numeric_limits<double>::infinity()};
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

// Whether the two cells' passes are apart, so that a difference is more than the spread within
// each.
bool are_apart(const CellResult& left, const CellResult& right, const Cost& cost) {
  if (left.passes.size() < 2 || right.passes.size() < 2) return false;
  const Range a = pass_range(left, cost);
  const Range b = pass_range(right, cost);
  return a.high < b.low || b.high < a.low;
}

bool enough_samples(const CellResult& cell, const Cost& cost) {
  return has_enough_samples(cost.percentile, (cell.*cost.latency).total.count);
}

std::string format_time(double value_ns) {
  if (value_ns < 1e3) return fmt::format("{:.0f} ns", value_ns);
  if (value_ns < 1e6) return fmt::format("{:.1f} us", value_ns / 1e3);
  return fmt::format("{:.1f} ms", value_ns / 1e6);
}

// Three significant figures.
std::string format_ratio(double ratio) {
  return fmt::format("{:.{}f}x", ratio, ratio < 10 ? 2 : ratio < 100 ? 1 : 0);
}

// "allocate P50 1.02x?, allocate P99 ~1.31x, free P50 0.98x", or times where there is no baseline.
std::string costs_of(const CellResult& cell, const CellResult* baseline) {
  std::vector<std::string> parts;
  for (const Cost& cost : kCosts) {
    const auto value = value_of(cell, cost);
    if (!value) continue;
    bool enough = enough_samples(cell, cost);
    if (baseline == nullptr) {
      parts.push_back(fmt::format("{} {}{}", cost.name, enough ? "" : "~", format_time(*value)));
      continue;
    }
    const auto base = value_of(*baseline, cost);
    if (!base) continue;
    enough = enough && enough_samples(*baseline, cost);
    parts.push_back(fmt::format("{} {}{}{}", cost.name, enough ? "" : "~",
                                format_ratio(*value / *base),
                                are_apart(cell, *baseline, cost) ? "" : "?"));
  }
  const bool has_reserved = baseline != nullptr && cell.reserved_bytes_peak &&
                            baseline->reserved_bytes_peak.value_or(0) > 0;
  if (has_reserved) {
    parts.push_back("reserved peak " +
                    format_ratio(static_cast<double>(*cell.reserved_bytes_peak) /
                                 static_cast<double>(*baseline->reserved_bytes_peak)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// ", process 0: 3 of 80, process 1: 0 of 20" where the workload has several processes.
std::string failures_by_process(const CellResult& cell) {
  std::string text;
  const auto value_of = [&](const std::string& name) -> std::optional<std::int64_t> {
    const auto found = std::ranges::find(
        cell.counters, name, [](const auto& counter) { return std::string_view(counter.first); });
    return found == cell.counters.end() ? std::nullopt : std::optional(found->second);
  };
  for (std::size_t process = 0;; ++process) {
    const auto failed = value_of(fmt::format("process{}.out_of_memory", process));
    const auto asked = value_of(fmt::format("process{}.requests", process));
    if (!failed || !asked) return text;
    text += fmt::format(", process {}: {} of {}", process, *failed, *asked);
  }
}

std::string failures_of(const CellResult& cell) {
  if (cell.status == CellStatus::OomStopped) return "stopped at its first failed request";
  return fmt::format("{} of {} requests failed{}", cell.oom_count, cell.allocate_count,
                     failures_by_process(cell));
}

std::string causes_of(const CellResult& cell) {
  std::vector<std::string> parts;
  for (std::size_t cause = 0; cause < cell.oom_cause_counts.size(); ++cause) {
    if (cell.oom_cause_counts[cause] == 0 || cause >= kOomCauseCount) continue;
    parts.push_back(fmt::format("{} {}", to_string(static_cast<OomCause>(cause)),
                                cell.oom_cause_counts[cause]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "caching, unset" or "caching, max_split_size_mb:128".
std::string name_of(const CellKey& key, const TextStyle& style) {
  if (key.conf.empty()) return style.name(key.allocator) + " unset";
  return style.name(key.allocator) + " " + style.name(key.conf);
}

// "A (detail), B (detail), and 3 more".
template <typename Detail>
std::string list_of(const std::vector<const CellResult*>& cells, const TextStyle& style,
                    Detail detail) {
  std::string text;
  for (std::size_t index = 0; index < std::min(cells.size(), kListedMax); ++index) {
    if (index > 0) text += "; ";
    text += name_of(cells[index]->key, style);
    const std::string more = detail(*cells[index]);
    if (!more.empty()) text += style.plain(" (" + more + ")");
  }
  if (cells.size() > kListedMax) text += fmt::format("; and {} more", cells.size() - kListedMax);
  return text;
}

std::string baseline_sentence(const Sorted& sorted, const TextStyle& style) {
  CellKey key;
  key.allocator = kBaselineAllocator;
  const std::string name = name_of(key, style);
  if (sorted.baseline == nullptr) {
    return name + " was not measured here, so costs are times and not ratios.";
  }
  const CellResult& cell = *sorted.baseline;
  if (!had_oom(cell)) {
    return name +
           fmt::format(" had no OOM: all {} requests of a pass were served.", cell.allocate_count);
  }
  const std::string causes = causes_of(cell);
  std::string text = name + style.plain(" ran out of memory: " + failures_of(cell) +
                                        (causes.empty() ? "" : " (" + causes + ")"));
  const auto capacity = static_cast<std::size_t>(OomCause::Capacity);
  const bool all_capacity = cell.oom_count > 0 && capacity < cell.oom_cause_counts.size() &&
                            cell.oom_cause_counts[capacity] == cell.oom_count;
  text += all_capacity ? "; with cause capacity the program's own live memory leaves no room, so "
                         "no allocator could have served them."
                       : ".";
  return text;
}

}  // namespace

TextStyle terminal_style() { return {.name = printable, .plain = printable}; }

TextStyle markdown_style() { return {.name = markdown_code, .plain = markdown_escape}; }

std::string_view answer_legend() {
  return "Ratios are to caching unset of the same experiment, which served fewer requests where it "
         "ran out of memory. "
         "? = the ranges of the two cells' passes overlap (or there are fewer than two), so the "
         "difference may be "
         "noise. ~ = too few samples for this percentile.";
}

std::string answer(const CellGroup& group, const TextStyle& style) {
  const Sorted sorted = sort_cells(group);
  std::string text = baseline_sentence(sorted, style);
  const bool baseline_failed = sorted.baseline != nullptr && had_oom(*sorted.baseline);
  if (!sorted.without_oom.empty()) {
    const bool baseline_served = sorted.baseline != nullptr && !baseline_failed;
    text += baseline_served ? " No OOM either: " : " No OOM: ";
    text += list_of(sorted.without_oom, style,
                    [&](const CellResult& cell) { return costs_of(cell, sorted.baseline); });
    text += ".";
  } else if (baseline_failed && !sorted.with_oom.empty()) {
    text += " Nothing else in this run avoided it.";
  }
  if (!sorted.with_oom.empty()) {
    text += baseline_failed ? " OOM as well: " : " OOM: ";
    text += list_of(sorted.with_oom, style, failures_of) + ".";
  }
  if (!sorted.not_measured.empty()) {
    text += " No numbers: ";
    text += list_of(sorted.not_measured, style, [](const CellResult& cell) {
      return is_measured(cell) ? std::string("no requests") : std::string(to_string(cell.status));
    });
    text += ".";
  }
  return text;
}

bool needs_answer(const CellGroup& group) {
  return std::ranges::any_of(
      group.cells, [](const CellResult* cell) { return !is_measured(*cell) || had_oom(*cell); });
}

std::string group_title(const CellGroup& group, const TextStyle& style) {
  const CellKey& key = group.key();
  const auto bytes = capacity_bytes(group);
  return style.name(key.workload) + ", capacity " + style.name(key.capacity) +
         (bytes ? " (" + format_bytes(*bytes) + ")" : std::string()) + ", device " +
         style.name(key.device) + fmt::format(", seed {}, on OOM ", key.seed) +
         style.plain(key.on_oom);
}

}  // namespace allocmark
