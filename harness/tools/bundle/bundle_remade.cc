// Rules that make again what a bundle holds and look whether it is the same.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "harness/core/bundled/made_again.h"
#include "harness/shell/pages/report_files.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/compare/compare_writers.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// Longer traces take minutes to make.
constexpr std::uint64_t kRegeneratedEventsMax = 50'000'000;

void regenerate(const BundleView& view, const Environment& maker, const CellResult& cell,
                const TimeBudget& budget, CheckedRule& rule) {
  const std::string& workload = cell.key.workload;
  if (names_files(cell.key)) {
    const std::string& hash = cell.key.workload_files;
    rule.notes.push_back(
        fmt::format("{} was not made again: it names a trace file{}, which is not in the bundle",
                    workload, hash.empty() ? "" : fmt::format(" (content hash {})", hash)));
    return;
  }
  if (cell.event_count > kRegeneratedEventsMax) {
    rule.notes.push_back(fmt::format("{} was not made again: it is too long", workload));
    return;
  }
  const EventsAgain again = events_again(cell.key, cell.event_count, budget);
  if (!again.hash.empty() && again.hash != cell.trace_hash) {
    differs(view, maker, fmt::format("{} with seed {} gives other events", workload, cell.key.seed),
            rule);
  } else if (again.hash.empty()) {
    not_checked(rule,
                again.over_limit
                    ? fmt::format("{} was not made again within the limits: give it more with "
                                  "--seconds",
                                  workload)
                    : again.problem);
  }
}

// A text of the bundle that is made again.
struct MadeText {
  StoredText stored = {};
  std::uint64_t same_bytes = 0;  // at its beginning
  bool there = false, differs = false;
  void take(std::string_view piece) {
    std::string part(differs ? 0 : piece.size(), '\0');
    part.resize(stored.read(same_bytes, part));
    differs = differs || part != piece;
    if (!differs) same_bytes += piece.size();
  }
};

// What the maker of a comparison chose, and nobody can measure again.
void say_who_decides(const BundleView& view, CheckedRule& rule) {
  if (view.bundle.files.contains("policy.json")) {
    rule.reservations.emplace_back(
        "policy.json says what counts as a change: its maker chose it, see what it leaves out");
  }
  if (view.bundle.files.contains("calibration.json")) {
    rule.reservations.emplace_back(
        "calibration.json says how far apart two runs come: its runs are not in the bundle");
  }
}

}  // namespace

void differs(const BundleView& view, const std::string& what, CheckedRule& rule) {
  const std::string ours = "allocmark " + view.options.version;
  if (view.made_by == ours) return broken(rule, what);
  not_checked(rule, "{}: this is {}, and '{}' made it: check it with that version", what, ours,
              view.made_by);
}

bool same_program(const Environment& a, const Environment& b) {
  return a.allocmark_version == b.allocmark_version && a.git_sha == b.git_sha &&
         a.git_dirty == b.git_dirty;
}

namespace {

// "1.2.3 (git abc", as version_text() begins.
std::string version_of(const Environment& maker) {
  constexpr std::size_t kShaShown = 12;
  return fmt::format("{} (git {}", maker.allocmark_version,
                     std::string_view(maker.git_sha).substr(0, kShaShown));
}

}  // namespace

bool made_here(const BundleView& view, const Environment& maker) {
  return view.options.version.starts_with(version_of(maker));
}

void differs(const BundleView& view, const Environment& maker, const std::string& what,
             CheckedRule& rule) {
  const std::string theirs = version_of(maker);
  if (made_here(view, maker)) return differs(view, what, rule);
  not_checked(rule,
              "{}: this is allocmark {}, and '{})' measured it: check it with "
              "that version",
              what, view.options.version, theirs);
}

void must_equal(const BundleView& view, const std::string& name, const std::string& made_again,
                CheckedRule& rule) {
  const auto file = view.bundle.files.find(name);
  if (file == view.bundle.files.end() || file->second.equals(made_again)) return;
  differs(view, name + " is not what its raw results give", rule);
}

void traces_regenerated(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  const TimeBudget budget(view.options.seconds);
  std::set<std::tuple<std::string, std::string, std::uint64_t>> seen;
  for (const StoredRun* run : runs_of(view)) {
    for (const CellResult& cell : run->file->cells) {
      if (!is_measured(cell)) continue;
      if (!seen.emplace(cell.key.workload_text(), cell.trace_hash, cell.key.seed).second) continue;
      regenerate(view, run->file->environment, cell, budget, rule);
    }
  }
}

void texts_unchanged(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  must_equal(view, "README.md", bundle_readme(), rule);
  const std::string prefix = "allocmark ";
  must_equal(
      view, kBundleManifest,
      bundle_manifest(view.made_by.starts_with(prefix) ? view.made_by.substr(prefix.size()) : "",
                      view.run.file->cells),
      rule);
}

void tables_recomputed(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  // What is made again is held against what is there a piece at a time.
  std::map<std::string, MadeText> made;
  make_report_files(view.run.file->environment, view.run.file->cells, view.run.whole,
                    [&](const std::string& name) -> TextSink {
                      const auto file = view.bundle.files.find(name);
                      const bool there = file != view.bundle.files.end();
                      if (there) made[name].stored = file->second;
                      made[name].there = there;
                      return [text = &made[name]](std::string_view piece) { text->take(piece); };
                    });
  for (const auto& [name, text] : made) {
    if (text.there && (text.differs || text.same_bytes < text.stored.size_bytes())) {
      differs(view, name + " is not what its raw results give", rule);
    }
  }
}

void verdicts_recomputed(const BundleView& view, CheckedRule& rule) {
  if (!view.bundle.files.contains(kBundleComparison) &&
      !view.bundle.files.contains("base.results.jsonl")) {
    rule.outcome = RuleOutcome::NotApplicable;
    return;
  }
  if (!needs_run(view, rule)) return;
  if (!view.bundle.files.contains("base.results.jsonl")) {
    return not_checked(rule, "base.results.jsonl is missing");
  }
  try {
    const Comparison verdicts = bundled_verdicts(view.bundle.files);
    must_equal(view, kBundleComparison, render_comparison_json(verdicts), rule);
    for (const std::string& fault : verdicts.faults) broken(rule, fault);
    say_who_decides(view, rule);
  } catch (const Error& error) {
    broken(rule, error.what());
  }
}

}  // namespace allocmark
