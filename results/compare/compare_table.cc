// The comparison for a terminal.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "results/columns/columns.h"
#include "results/columns/text.h"
#include "results/compare/compare_writers.h"

namespace allocmark {
namespace {

using ComparisonRow = std::array<std::string, 7>;

std::string value_text(const NumberComparison& number, const std::optional<double>& value,
                       const std::string& text) {
  if (!text.empty()) return text;
  if (!value) return "-";
  if (number.timed) return fmt::format("{:.4g} ns", *value);
  if (number.name.contains("_bytes") && *value >= 0) {
    return format_bytes(static_cast<std::uint64_t>(*value));
  }
  return plain_text(*value);
}

std::string share_text(double share) { return fmt::format("{:+.3g}", share * 100); }

std::string cell_text(const CellKey& key) {
  return printable(fmt::format("{} [{}] {} {} seed {} {}", key.allocator, conf_or_unset(key),
                               key.workload, key.capacity, key.seed, key.on_oom));
}

// Both cells where they are not the same one.
std::string pair_text(const CellComparison& cell) {
  if (!cell.now_key) return cell_text(cell.key);
  return printable(fmt::format("{} [{}] -> ", cell.key.allocator, conf_or_unset(cell.key))) +
         cell_text(*cell.now_key);
}

ComparisonRow number_row(const CellComparison& cell, const NumberComparison& number) {
  return {std::string(to_string(number.verdict)),
          number.name,
          value_text(number, number.base, number.base_text),
          value_text(number, number.now, number.now_text),
          number.change ? share_text(*number.change) + " %" : "",
          number.change_low ? fmt::format("{} .. {} %", share_text(*number.change_low),
                                          share_text(*number.change_high))
                            : "",
          pair_text(cell)};
}

std::string counts_text(const Comparison& comparison) {
  std::string text;
  for (std::size_t verdict = 0; verdict < kVerdictCount; ++verdict) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", comparison.verdict_counts[verdict],
                        to_string(static_cast<Verdict>(verdict)));
  }
  return text;
}

using Remarks = std::vector<std::string>;
using TakeRow = std::function<void(const ComparisonRow& row, const Remarks& remarks)>;

// What each kind of row says is in results/compare/VERDICTS.md; the same reason under every row of
// a cell would hide the rows.
void each_row(const Comparison& comparison, bool all, const TakeRow& take) {
  take({"verdict", "number", comparison.base_label, comparison.now_label, "change", "interval",
        "cell"},
       {});
  for (const CellComparison& cell : comparison.cells) {
    if (cell.numbers.empty() || !cell.reason.empty()) {
      take({std::string(to_string(cell.verdict)), "", "", "", "", "", pair_text(cell)},
           {cell.reason});
      if (!cell.reason.empty()) continue;
    }
    std::vector<const NumberComparison*> numbers;
    for (const NumberComparison& number : cell.numbers) {
      if (all || number.verdict != Verdict::Same) numbers.push_back(&number);
    }
    std::stable_sort(numbers.begin(), numbers.end(),
                     [](const auto* a, const auto* b) { return a->verdict < b->verdict; });
    for (const NumberComparison* number : numbers) {
      Remarks remarks{number->reason};
      if (number->rounds_needed) {
        remarks.push_back(fmt::format("about {} rounds would tell", *number->rounds_needed));
      }
      if (number == numbers.back()) {
        remarks.insert(remarks.end(), cell.flags.begin(), cell.flags.end());
      }
      take(number_row(cell, *number), remarks);
    }
  }
}

// The rows are made twice, since those of many cells do not fit into memory: for the widths, and
// as lines.
void write_numbers(const Comparison& comparison, bool all, const TextSink& sink) {
  std::array<std::size_t, 6> widths{};
  std::size_t row_count = 0;
  each_row(comparison, all, [&](const ComparisonRow& row, const Remarks&) {
    ++row_count;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  });
  if (row_count == 1) return;
  sink("\n");
  each_row(comparison, all, [&](const ComparisonRow& row, const Remarks& remarks) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      line += row[i] + std::string(widths[i] - display_width(row[i]) + 2, ' ');
    }
    line += row[6] + '\n';
    for (const std::string& remark : remarks) {
      if (!remark.empty()) line += fmt::format("    {}\n", printable(remark));
    }
    sink(line);
  });
}

}  // namespace

std::string passed_text(const Comparison& comparison) {
  const std::size_t undecided =
      comparison.verdict_counts[static_cast<std::size_t>(Verdict::Undecided)];
  if (undecided == 0) return "passed";
  return fmt::format("passed as far as it is decided: {} of {} cells are undecided", undecided,
                     comparison.cells.size());
}

std::string render_comparison(const Comparison& comparison, Detail detail) {
  std::string text;
  write_comparison_table(comparison, detail, [&](std::string_view piece) { text += piece; });
  return text;
}

void write_comparison_table(const Comparison& comparison, Detail detail, const TextSink& sink) {
  std::string out =
      fmt::format("{} cells compared: {}", comparison.cells.size(), counts_text(comparison));
  if (comparison.skipped_count > 0) {
    out += fmt::format("; {} skipped", comparison.skipped_count);
  }
  if (!comparison.incomplete.empty()) {
    out += fmt::format("; {} without a result", comparison.incomplete.size());
  }
  out += '\n';
  for (const std::string& note : comparison.notes) {
    out += fmt::format("note: {}\n", printable(note));
  }
  if (!comparison.calibrated && !comparison.interleaved) {
    out +=
        "note: not calibrated: built-in bounds stand for how far two runs of the same thing "
        "differ\n      (allocmark compare --calibrate measures it here; run --ab needs none)\n";
  }
  if (detail == Detail::Findings) {
    const std::string findings = render_findings(comparison);
    if (!findings.empty()) out += '\n' + findings;
    sink(out);
  } else {
    sink(out);
    write_numbers(comparison, detail == Detail::All, sink);
  }
  out.clear();
  if (!comparison.incomplete.empty()) out += "\nwithout a result:\n";
  for (const IncompleteCell& cell : comparison.incomplete) {
    out += fmt::format("  {}\n    {}\n", cell_text(cell.key), printable(cell.reason));
  }
  out += '\n';
  for (const std::string& failure : comparison.failures) {
    out += fmt::format("FAILED: {}\n", printable(failure));
  }
  if (comparison.failures.empty()) out += passed_text(comparison) + '\n';
  sink(out);
}

}  // namespace allocmark
