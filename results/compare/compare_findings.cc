// The comparison for people who have to act: one line for each finding, at most 100 columns wide,
// with where, what, by how much, how sure and what to do. Numbers of a cell that say the same thing
// share a line; compare_table.cc has them all.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "results/columns/columns.h"
#include "results/columns/text.h"
#include "results/compare/compare_calls.h"
#include "results/compare/compare_writers.h"
#include "results/compare/timed_numbers.h"
#include "results/utf8.h"

namespace allocmark {
namespace {

// Columns: verdict, where, what, how sure, what to do.
constexpr std::array<std::size_t, 4> kWidths{14, 26, 39, 13};
constexpr std::size_t kFindingCountMax = 24;

// Of numbers that are not timed.
constexpr std::pair<std::string_view, std::string_view> kShownNames[] = {
    {"oom_count", "failed requests"},
    {"residue_bytes", "left behind"},
    {"unordered_reuse_count", "reused too early"},
    {"status", "result"},
    {"oom_first.event_index", "first failure at event"},
    {"placement_hash", "placements"},
    {"device_bytes_peak", "device peak"},
    {"reserved_bytes_peak", "reserved peak"},
    {"allocated_bytes_peak", "allocated peak"},
    {"active_bytes_peak", "active peak"},
    {"host_taken_bytes", "host memory"},
    {"other_threads_ns_per_s", "other threads"},
};

std::string short_name(const std::string& name) {
  for (const auto& [stored, shown] : kShownNames) {
    if (stored == name) return std::string(shown);
  }
  if (const TimedNumber* timed = find_timed_number(name)) return std::string(timed->shown);
  constexpr std::string_view kCalls = "driver_calls.";
  if (name.starts_with(kLiveObjects)) return "live " + name.substr(kLiveObjects.size());
  return name.starts_with(kCalls) ? name.substr(kCalls.size()) + " calls" : name;
}

// Cut in the middle, whose ends tell most.
std::string fitted(const std::string& text, std::size_t width) {
  const std::string clean = printable(text);
  if (display_width(clean) <= width) return clean;
  const std::size_t head = (width - 2) / 2;
  const std::size_t tail = width - 2 - head;
  return valid_utf8(clean.substr(0, head)) + ".." + valid_utf8(clean.substr(clean.size() - tail));
}

std::string duration_text(double ns) {
  if (ns < 1e4) return fmt::format("{:.4g} ns", ns);
  if (ns < 1e7) return fmt::format("{:.4g} us", ns / 1e3);
  return fmt::format("{:.4g} ms", ns / 1e6);
}

bool is_whole(double value) { return value == std::floor(value); }

}  // namespace

std::string plain_text(double value) {
  return is_whole(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

namespace {

std::string value_text(const NumberComparison& number, double value) {
  if (number.timed) return duration_text(value);
  if (number.name == "other_threads_ns_per_s") return fmt::format("{:.3g} ms/s", value / 1e6);
  if (number.name.contains("_bytes") && value >= 0) {
    return format_bytes(static_cast<std::uint64_t>(value));
  }
  return plain_text(value);
}

// Two digits, and never an exponent.
std::string percent_text(double share) {
  const double percent = share * 100;
  return std::abs(percent) < 10 ? fmt::format("{:+.2g}", percent) : fmt::format("{:+.0f}", percent);
}

// Where both are written alike, the difference: 11.9 GiB + 2.00 MiB.
std::string values_text(const NumberComparison& number) {
  const std::string before = value_text(number, *number.base);
  const std::string after = value_text(number, *number.now);
  const double difference = *number.now - *number.base;
  if (before != after || difference == 0) return before + " -> " + after;
  return before + (difference > 0 ? " + " : " - ") + value_text(number, std::abs(difference));
}

// With the interval of a timed change, or without.
std::string change_text(const NumberComparison& number, bool with_interval) {
  if (number.name == "placement_hash") return "differ";
  if (!number.base_text.empty() || !number.now_text.empty()) {
    return number.base_text.text() + " -> " + number.now_text.text();
  }
  if (!number.base || !number.now) return "known to one side only";
  if (number.timed && number.change_low) {
    const std::string interval =
        percent_text(*number.change_low) + ".." + percent_text(*number.change_high);
    if (number.verdict == Verdict::Undecided) return interval + " %";
    const double percent = *number.change * 100;
    const std::string change =
        std::abs(percent) < 100 ? fmt::format("{:+.3g}", percent) : fmt::format("{:+.0f}", percent);
    return with_interval ? fmt::format("{} % ({})", change, interval) : change + " %";
  }
  return values_text(number);
}

std::string certainty_of(const NumberComparison& number) {
  if (number.verdict == Verdict::Undecided) {
    return number.rounds_needed ? fmt::format("~{} rounds", *number.rounds_needed) : "open";
  }
  if (number.verdict == Verdict::NotComparable) return "";
  if (number.p_value_adjusted) return fmt::format("p {:.1g}", *number.p_value_adjusted);
  if (number.p_value) return fmt::format("p {:.1g}", *number.p_value);
  if (number.timed) return "";
  // Of several rounds that differ there are means.
  return is_whole(number.base.value_or(0)) && is_whole(number.now.value_or(0)) ? "exact" : "mean";
}

enum class Family : std::uint8_t { Safety, Exact, Timed };

Family number_family(const NumberComparison& number) {
  if (number.safety) return Family::Safety;
  return number.timed ? Family::Timed : Family::Exact;
}

struct CellFinding {
  const CellComparison* cell = nullptr;
  const NumberComparison* number = nullptr;  // null: the cell itself
  Verdict verdict = Verdict::Same;
  bool gated = true;
  std::size_t more_count = 0;  // numbers of the cell that say the same
};

// The number that stands for others: what decides first, then the surest and largest change.
bool stands_before(const NumberComparison* a, const NumberComparison* b) {
  if (a->gated != b->gated) return a->gated;
  const auto p = [](const NumberComparison& number) { return number.p_value_adjusted.value_or(0); };
  if (a->timed && p(*a) != p(*b)) return p(*a) < p(*b);
  return a->timed && std::abs(a->change.value_or(0)) > std::abs(b->change.value_or(0));
}

std::vector<CellFinding> findings_of(const CellComparison& cell) {
  std::vector<CellFinding> findings;
  if (cell.numbers.empty()) {
    findings.push_back({.cell = &cell, .verdict = cell.verdict, .gated = cell.gated});
    return findings;
  }
  for (std::size_t rank = 0; rank < kVerdictCount; ++rank) {
    const auto verdict = static_cast<Verdict>(rank);
    if (verdict == Verdict::Same) continue;
    for (const Family family : {Family::Safety, Family::Exact, Family::Timed}) {
      std::vector<const NumberComparison*> numbers;
      for (const NumberComparison& number : cell.numbers) {
        if (number.verdict == verdict && number_family(number) == family)
          numbers.push_back(&number);
      }
      if (numbers.empty()) continue;
      std::stable_sort(numbers.begin(), numbers.end(), stands_before);
      const std::size_t shown = family == Family::Safety ? numbers.size() : 1;
      for (std::size_t i = 0; i < shown; ++i) {
        findings.push_back({.cell = &cell,
                            .number = numbers[i],
                            .verdict = verdict,
                            .gated = numbers[i]->gated,
                            .more_count = numbers.size() - shown});
      }
    }
  }
  return findings;
}

// The parts of cells' names that tell them apart.
class Places {
 public:
  explicit Places(const Comparison& comparison) {
    for (const CellComparison& cell : comparison.cells) {
      for (std::size_t i = 0; i < kPartCount; ++i) seen_[i].insert(parts(cell)[i]);
    }
  }
  [[nodiscard]] std::string text(const CellComparison& cell) const {
    const auto all = parts(cell);
    std::string text = all[0];
    for (std::size_t i = 1; i < kPartCount; ++i) {
      const bool tells = seen_[i].size() > 1 || (i == 1 && seen_[0].size() == 1);
      if (tells && !all[i].empty()) text += " " + all[i];
    }
    return text;
  }

 private:
  static constexpr std::size_t kPartCount = 6;
  using Parts = std::array<std::string, kPartCount>;
  static Parts parts(const CellComparison& cell) {
    const CellKey& key = cell.key;
    // What differs between the sides is said above the lines.
    const bool pair = cell.now_key.has_value();
    return {key.workload,
            key.capacity,
            pair ? "" : key.allocator,
            pair ? std::string() : std::string(conf_or_unset(key)),
            fmt::format("seed {}", key.seed),
            key.on_oom};
  }
  std::array<std::set<std::string>, kPartCount> seen_ = {};
};

std::string padded_whole(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, display_width(text)) + 1, ' ');
}

std::string padded(const std::string& text, std::size_t width) {
  return padded_whole(fitted(text, width), width);
}

// The advice's number in the list below the lines; 0 for none.
std::size_t note_of(std::vector<std::string>& notes, const std::string& advice) {
  if (advice.empty()) return 0;
  const auto found = std::find(notes.begin(), notes.end(), advice);
  if (found != notes.end()) return static_cast<std::size_t>(found - notes.begin()) + 1;
  notes.push_back(advice);
  return notes.size();
}

// At most so wide, if need be without the interval and with a part of the name: a number that is
// cut is another number.
std::string what_of(const CellFinding& finding, std::size_t width) {
  if (finding.number == nullptr) return fitted(finding.cell->reason, width);
  const NumberComparison& number = *finding.number;
  const std::string name = short_name(number.name);
  const std::string more = finding.more_count == 0 ? "" : fmt::format(" +{}", finding.more_count);
  if (number.excused || number.verdict == Verdict::NotComparable) return fitted(name + more, width);
  std::string values;
  for (const bool with_interval : {true, false}) {
    values = " " + printable(change_text(number, with_interval)) + more;
    if (display_width(printable(name)) + display_width(values) <= width) {
      return printable(name) + values;
    }
  }
  constexpr std::size_t kNameWidthMin = 8;
  const std::size_t room = width - std::min(width, display_width(values));
  return fitted(name, std::max(room, kNameWidthMin)) + values;
}

std::string line_of(const CellFinding& finding, const Places& places,
                    std::vector<std::string>& notes) {
  std::string verdict(to_string(finding.verdict));
  if (finding.number != nullptr && finding.number->excused) verdict = "not compared";
  if (!finding.gated && finding.verdict == Verdict::Worse) verdict = "(worse)";
  const std::string advice =
      finding.number == nullptr ? finding.cell->reason : advice_for(*finding.cell, *finding.number);
  const std::size_t note = note_of(notes, printable(advice));
  // Exact numbers rest on placements.
  const std::string& placed = finding.cell->first_difference;
  const bool is_exact = finding.number != nullptr && !finding.number->timed;
  const std::size_t placement_note =
      is_exact && !placed.empty()
          ? note_of(notes, printable(fmt::format("{}: placements differ {}",
                                                 places.text(*finding.cell), placed)))
          : 0;
  std::string line =
      padded(verdict, kWidths[0]) + padded(places.text(*finding.cell), kWidths[1]) +
      padded_whole(what_of(finding, kWidths[2]), kWidths[2]) +
      padded(finding.number == nullptr ? "" : certainty_of(*finding.number), kWidths[3]);
  if (note > 0 && placement_note > 0) {
    line += fmt::format("[{},{}]", note, placement_note);
  } else if (note + placement_note > 0) {
    line += fmt::format("[{}]", note + placement_note);
  }
  while (line.ends_with(' ')) line.pop_back();
  return line + '\n';
}

// At most 100 columns, continued below the text.
std::string wrapped_note(std::size_t index, const std::string& text) {
  std::string out = fmt::format("[{}] ", index);
  const std::string indent(out.size(), ' ');
  for (const char letter : wrap_words(text, 100 - out.size())) {
    out += letter;
    if (letter == '\n') out += indent;
  }
  while (out.ends_with(' ') || out.ends_with('\n')) out.pop_back();
  return out + '\n';
}

// What the sides are, where all cells have the same two.
std::string sides_text(const Comparison& comparison) {
  std::set<std::string> texts;
  const auto named = [](const std::string& label, const CellKey& key) {
    return fitted(fmt::format("{}: {} [{}]", label, key.allocator,
                              without_folders(conf_or_unset(key))),
                  100) +
           '\n';
  };
  for (const CellComparison& cell : comparison.cells) {
    if (!cell.now_key) return {};
    texts.insert(named(comparison.base_label, cell.key) +
                 named(comparison.now_label, *cell.now_key));
  }
  return texts.size() == 1 ? *texts.begin() : std::string();
}

}  // namespace

std::string finding_text(const CellComparison& cell) {
  if (cell.numbers.empty()) return cell.reason;
  const std::vector<CellFinding> findings = findings_of(cell);
  const auto first = std::ranges::find_if(findings, [&](const CellFinding& finding) {
    return finding.verdict == cell.verdict && finding.number != nullptr;
  });
  if (first == findings.end()) return cell.reason;
  const NumberComparison& number = *first->number;
  std::string text = fmt::format("{}: {}", to_string(cell.verdict), short_name(number.name));
  if (number.verdict != Verdict::NotComparable) text += " " + change_text(number, true);
  const std::string& why = cell.reason.empty() ? number.reason.text() : cell.reason;
  return why.empty() ? text : text + ": " + why;
}

std::string render_findings(const Comparison& comparison) {
  const Places places(comparison);
  std::string out = sides_text(comparison);
  std::vector<CellFinding> findings;
  for (const CellComparison& cell : comparison.cells) {
    const std::vector<CellFinding> of_cell = findings_of(cell);
    findings.insert(findings.end(), of_cell.begin(), of_cell.end());
  }
  if (findings.empty()) return out;
  std::stable_sort(findings.begin(), findings.end(),
                   [](const CellFinding& a, const CellFinding& b) {
                     if (a.gated != b.gated) return a.gated;
                     return a.verdict < b.verdict;
                   });
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < std::min(findings.size(), kFindingCountMax); ++i) {
    out += line_of(findings[i], places, notes);
  }
  if (findings.size() > kFindingCountMax) {
    out += fmt::format("... and {} more lines: --details has every number\n",
                       findings.size() - kFindingCountMax);
  }
  if (!notes.empty()) out += '\n';
  for (std::size_t i = 0; i < notes.size(); ++i) out += wrapped_note(i + 1, notes[i]);
  return out;
}

}  // namespace allocmark
