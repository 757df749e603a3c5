// What sets one rank apart (ranks.h).
#include "harness/tools/ranks/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/median.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

std::string ms_text(std::uint64_t ns) { return fmt::format("{:.3f} ms", double(ns) * 1e-6); }

std::string where_text(const std::string& step) {
  return step.empty() ? "before the first mark" : "after mark '" + printable(step) + "'";
}

void find_failures(const std::vector<RankRow>& rows, std::vector<RankFinding>* findings) {
  // Ranks that go on after a failure have later ones; without times the first of the order is told.
  const RankRow* first = nullptr;
  std::size_t failed_count = 0;
  for (const RankRow& row : rows) {
    if (!row.failure) continue;
    ++failed_count;
    if (first == nullptr || row.failure->time_ns < first->failure->time_ns) first = &row;
  }
  if (first == nullptr) return;
  const RankFailure& failure = *first->failure;
  std::string text = fmt::format(
      "rank {} runs out of memory{} {}, at event {}: asks for {} with {} free on its device, has "
      "{} live of {} reserved",
      first->number, failed_count > 1 ? " first," : "", where_text(failure.step),
      failure.event_index, format_bytes(failure.asked_bytes), format_bytes(failure.free_bytes),
      format_bytes(failure.live_bytes), format_bytes(failure.reserved_bytes));
  if (first->end_ns) text += fmt::format("; {} after the start", ms_text(failure.time_ns));
  if (failed_count > 1) text += fmt::format("; {} of {} ranks fail", failed_count, rows.size());
  findings->push_back({.kind = FindingKind::Failed, .rank = first->number, .text = text});
}

// Ranks that wait at the same meeting share a line.
bool is_same_stall(const RankRow& one, const RankRow& other) {
  return one.stall && other.stall && one.stall->meeting == other.stall->meeting &&
         one.stall->number == other.stall->number && one.stall->step == other.stall->step;
}

std::string ranks_text(const std::vector<std::uint32_t>& numbers) {
  return fmt::format("rank{} {}", numbers.size() > 1 ? "s" : "", fmt::join(numbers, ", "));
}

void find_stalls(const std::vector<RankRow>& rows, std::vector<RankFinding>* findings) {
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    const auto is_same = [&](const RankRow& other) { return is_same_stall(*row, other); };
    if (!row->stall || std::any_of(rows.begin(), row, is_same)) continue;
    const RankStall& stall = *row->stall;
    std::vector<std::uint32_t> waiting;
    std::uint64_t since_ns = stall.since_ns;
    for (const RankRow& other : rows) {
      if (!is_same(other)) continue;
      waiting.push_back(other.number);
      since_ns = std::min(since_ns, other.stall->since_ns);
    }
    std::string text = fmt::format("{} wait{} for good {}, at meeting {} of '{}'",
                                   ranks_text(waiting), waiting.size() > 1 ? "" : "s",
                                   where_text(stall.step), stall.number, printable(stall.meeting));
    if (!stall.missing.empty()) {
      text += fmt::format(": {} never come{}", ranks_text(stall.missing),
                          stall.missing.size() > 1 ? "" : "s");
    }
    if (row->end_ns) text += fmt::format("; the first since {} after the start", ms_text(since_ns));
    findings->push_back({.kind = FindingKind::Waits, .rank = row->number, .text = text});
  }
}

void find_smaller(const std::vector<RankRow>& rows, std::vector<RankFinding>* findings) {
  const auto [least, most] = std::ranges::minmax_element(rows, {}, &RankRow::capacity_bytes);
  for (const RankRow& row : rows) {
    if (row.capacity_bytes == most->capacity_bytes || row.capacity_bytes != least->capacity_bytes) {
      continue;
    }
    findings->push_back(
        {.kind = FindingKind::Smaller,
         .rank = row.number,
         .text = fmt::format("rank {}'s device has {} free at the start, rank {}'s {}", row.number,
                             format_bytes(row.capacity_bytes), most->number,
                             format_bytes(most->capacity_bytes))});
  }
}

// Peaks of ranks that did not come to their end, or that had less memory, say little.
bool peaks_differ_anyway(const std::vector<RankRow>& rows) {
  return std::ranges::any_of(rows, [&](const RankRow& row) {
    return row.failure || row.stall || row.capacity_bytes != rows.front().capacity_bytes;
  });
}

void find_most(const std::vector<RankRow>& rows, std::vector<RankFinding>* findings) {
  const auto [least, most] = std::ranges::minmax_element(rows, {}, &RankRow::device_bytes_peak);
  const auto ratio = static_cast<double>(most->device_bytes_peak) /
                     static_cast<double>(std::max<std::uint64_t>(least->device_bytes_peak, 1));
  if (ratio < kMostRatioMin || peaks_differ_anyway(rows)) return;
  findings->push_back(
      {.kind = FindingKind::Most,
       .rank = most->number,
       .text =
           fmt::format("rank {} takes most of its device: {} at its peak, {:.2f} times what rank "
                       "{} takes ({})",
                       most->number, format_bytes(most->device_bytes_peak), ratio, least->number,
                       format_bytes(least->device_bytes_peak))});
}

// Bytes per step by which live memory rose at every mark of a step, from the third on: the first
// steps still make what stays. Nothing where it ever fell or stood.
std::uint64_t growth_bytes(const RankRow& row) {
  const std::vector<std::uint64_t>& live = row.step_live_bytes;
  if (live.size() < 4) return 0;
  for (std::size_t i = 3; i < live.size(); ++i) {
    if (live[i] <= live[i - 1]) return 0;
  }
  return (live.back() - live[2]) / (live.size() - 3);
}

void find_growth(const std::vector<RankRow>& rows, std::vector<RankFinding>* findings) {
  std::vector<double> all;
  for (const RankRow& row : rows) all.push_back(static_cast<double>(growth_bytes(row)));
  const auto usual_bytes = static_cast<std::uint64_t>(median(all));
  for (const RankRow& row : rows) {
    const std::uint64_t bytes = growth_bytes(row);
    if (bytes < usual_bytes + kGrowthBytesMin) continue;
    findings->push_back(
        {.kind = FindingKind::Grows,
         .rank = row.number,
         .text =
             fmt::format("rank {}'s live bytes grow by {} a step; of half the ranks by {} or less",
                         row.number, format_bytes(bytes), format_bytes(usual_bytes))});
  }
}

void find_late(const std::vector<RankRow>& rows, std::vector<RankFinding>* findings) {
  std::uint64_t end_ns = 0;
  std::uint64_t all_ns = 0;
  for (const RankRow& row : rows) {
    if (!row.end_ns) return;
    end_ns = std::max(end_ns, *row.end_ns);
    all_ns += row.delay_ns.value_or(0);
  }
  for (const RankRow& row : rows) {
    const std::uint64_t delay_ns = row.delay_ns.value_or(0);
    const double share = static_cast<double>(delay_ns) / static_cast<double>(end_ns);
    if (2 * delay_ns <= all_ns || share < kLateShareMin) continue;
    std::string text =
        fmt::format("the others wait for rank {} alone: {} of the job's {}, {:.1f} %", row.number,
                    ms_text(delay_ns), ms_text(end_ns), 100 * share);
    if (row.retry_count > 0) {
      text +=
          fmt::format("; it gave cached memory back {} times to serve a request", row.retry_count);
    }
    findings->push_back({.kind = FindingKind::Late, .rank = row.number, .text = text});
  }
}

}  // namespace

const char* finding_name(FindingKind kind) {
  constexpr const char* kNames[] = {"failed", "waits", "smaller", "most", "grows", "late"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<RankFinding> findings_of(const std::vector<RankRow>& rows) {
  std::vector<RankFinding> findings;
  if (rows.size() < 2) return findings;
  find_failures(rows, &findings);
  find_stalls(rows, &findings);
  find_smaller(rows, &findings);
  find_most(rows, &findings);
  find_growth(rows, &findings);
  find_late(rows, &findings);
  return findings;
}

}  // namespace allocmark
