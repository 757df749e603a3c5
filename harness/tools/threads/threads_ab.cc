// Two allocators under the same threads (threads.h).
#include "harness/tools/threads/threads.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/bytes.h"
#include "base/json_text.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

enum class NumberKind : std::uint8_t { Count, Bytes, Time };

struct NumberRow {
  std::string_view name, shown;
  NumberKind kind;
  // Of one round.
  ValueRange (*range)(const ThreadsRow& row);
};

ValueRange range_of(const CountRange& count) {
  return {.low = static_cast<double>(count.low), .high = static_cast<double>(count.high)};
}

ValueRange one_value(double value) { return {.low = value, .high = value}; }

constexpr NumberRow kThreadsNumbers[] = {
    {"oom_count", "failed requests", NumberKind::Count,
     [](const ThreadsRow& row) { return range_of(row.oom_count); }},
    {"reserved_bytes_end", "reserved", NumberKind::Bytes,
     [](const ThreadsRow& row) { return range_of(row.reserved_bytes_end); }},
    {"allocate_p50_ns", "allocate P50", NumberKind::Time,
     [](const ThreadsRow& row) { return one_value(row.allocate.p50_ns); }},
    {"allocate_p99_ns", "allocate P99", NumberKind::Time,
     [](const ThreadsRow& row) { return one_value(row.allocate.p99_ns); }},
    {"deallocate_p50_ns", "free P50", NumberKind::Time,
     [](const ThreadsRow& row) { return one_value(row.deallocate.p50_ns); }},
    {"deallocate_p99_ns", "free P99", NumberKind::Time,
     [](const ThreadsRow& row) { return one_value(row.deallocate.p99_ns); }},
    {"ns_per_call", "time per call", NumberKind::Time,
     [](const ThreadsRow& row) {
       return one_value(row.calls_per_s > 0 ? 1e9 / row.calls_per_s : 0);
     }},
};

const NumberRow& row_of(std::string_view name) {
  return *std::ranges::find(kThreadsNumbers, name, &NumberRow::name);
}

ValueRange over_rounds(const NumberRow& number, const ThreadsRounds& rounds, std::size_t index) {
  ValueRange all = number.range(rounds.front()[index]);
  for (const std::vector<ThreadsRow>& round : rounds) {
    const ValueRange one = number.range(round[index]);
    all = {.low = std::min(all.low, one.low), .high = std::max(all.high, one.high)};
  }
  return all;
}

bool is_more(const NumberRow& number, const ValueRange& more, const ValueRange& less) {
  const double floor = number.kind == NumberKind::Time ? kThreadsFloor * less.high : 0;
  return more.low > less.high + floor;
}

std::string value_text(const NumberRow& number, double value) {
  switch (number.kind) {
    case NumberKind::Count:
      return fmt::format("{:.0f}", value);
    case NumberKind::Bytes:
      return format_bytes(static_cast<std::uint64_t>(value));
    case NumberKind::Time:
      break;
  }
  return value < 10'000 ? fmt::format("{:.0f} ns", value) : fmt::format("{:.1f} us", value / 1000);
}

std::string range_text(const NumberRow& number, const ValueRange& range) {
  if (range.low == range.high) return value_text(number, range.low);
  return value_text(number, range.low) + " to " + value_text(number, range.high);
}

std::string_view verdict_text(ThreadsVerdict verdict) {
  constexpr std::string_view kTexts[] = {"same", "better", "worse"};
  return kTexts[static_cast<std::size_t>(verdict)];
}

std::size_t count_of(const ThreadsComparison& comparison, ThreadsVerdict verdict) {
  return static_cast<std::size_t>(
      std::ranges::count(comparison.numbers, verdict, &ThreadsNumber::verdict));
}

}  // namespace

bool ThreadsComparison::passed() const {
  return overlaps.empty() && count_of(*this, ThreadsVerdict::Worse) == 0;
}

ThreadsComparison compare_threads(const ThreadsRounds& base, const ThreadsRounds& now) {
  ThreadsComparison comparison;
  for (std::size_t index = 0; index < base.front().size(); ++index) {
    const std::uint32_t thread_count = base.front()[index].thread_count;
    for (const NumberRow& row : kThreadsNumbers) {
      ThreadsNumber number{.thread_count = thread_count,
                           .name = row.name,
                           .base = over_rounds(row, base, index),
                           .now = over_rounds(row, now, index)};
      if (is_more(row, number.now, number.base)) number.verdict = ThreadsVerdict::Worse;
      if (is_more(row, number.base, number.now)) number.verdict = ThreadsVerdict::Better;
      comparison.numbers.push_back(number);
    }
    for (const std::vector<ThreadsRow>& round : now) {
      if (round[index].overlap.empty()) continue;
      comparison.overlaps.push_back(
          fmt::format("{} threads: {}", thread_count, round[index].overlap));
      break;
    }
  }
  if (comparison.overlaps.empty()) return comparison;
  for (ThreadsNumber& number : comparison.numbers) {
    // What hands out memory twice takes less of it.
    if (number.verdict == ThreadsVerdict::Better) number.verdict = ThreadsVerdict::Same;
  }
  return comparison;
}

std::string render_comparison(const ThreadsComparison& comparison) {
  std::string text = fmt::format("{:>7}  {:16}{:26}{:26}{}\n", "threads", "number", "A", "B", "");
  std::vector<ThreadsNumber> sorted = comparison.numbers;
  std::ranges::stable_sort(sorted, std::ranges::greater(), &ThreadsNumber::verdict);
  for (const ThreadsNumber& number : sorted) {
    const NumberRow& row = row_of(number.name);
    text += fmt::format("{:>7}  {:16}{:26}{:26}{}\n", number.thread_count, row.shown,
                        range_text(row, number.base), range_text(row, number.now),
                        verdict_text(number.verdict));
  }
  text += '\n';
  for (const std::string& overlap : comparison.overlaps) {
    text += fmt::format("FAILED: B with {}\n", printable(overlap));
  }
  if (const std::size_t worse = count_of(comparison, ThreadsVerdict::Worse); worse > 0) {
    text += fmt::format("FAILED: {} of {} numbers are worse in every round\n", worse,
                        comparison.numbers.size());
  }
  if (comparison.passed()) text += "passed\n";
  return text;
}

std::string to_json(const ThreadsComparison& comparison) {
  OrderedJson numbers = OrderedJson::array();
  for (const ThreadsNumber& number : comparison.numbers) {
    numbers.push_back({{"thread_count", number.thread_count},
                       {"number", number.name},
                       {"base_low", number.base.low},
                       {"base_high", number.base.high},
                       {"now_low", number.now.low},
                       {"now_high", number.now.high},
                       {"verdict", verdict_text(number.verdict)}});
  }
  return json_text(OrderedJson{{"kind", "threads_comparison"},
                               {"schema_version", "1.0.0"},
                               {"numbers", numbers},
                               {"overlaps", comparison.overlaps},
                               {"passed", comparison.passed()}});
}

}  // namespace allocmark
