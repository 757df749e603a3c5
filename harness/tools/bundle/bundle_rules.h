// The rules of bundle_check.h on what a bundle holds, one function each. Neither times nor checks
// allocators.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "harness/core/run/run_folder.h"
#include "harness/tools/bundle/bundle.h"
#include "harness/tools/bundle/bundle_check.h"
#include "results/cell_source.h"
#include "results/run_file.h"
#include "workloads/trace/archive.h"

namespace allocmark {

// Of a file that the bundle does not have.
inline constexpr const char* kNotThere = "it is missing";

// A run of a bundle: the one that is published, or the one that it is compared with.
struct StoredRun {
  std::string prefix = {};           // of its files' names: "" or "base."
  std::string label = {};            // before the names of its cells: "" or "baseline: "
  bool there = false;                // it has results
  std::optional<RunFile> file = {};  // its cells as summaries
  CellSource whole = {};             // the same cells
  std::string problem = {};          // why there is no file
  std::optional<RunManifest> plan = {};
  std::string plan_problem = {};  // why there is none
};

// A bundle as the rules see it.
struct BundleView {
  OpenedBundle bundle = {};
  StoredRun run = {};
  StoredRun base = {};                       // of an A/B run: its side A
  std::optional<InterleavedRun> turns = {};  // of an A/B run
  std::string turns_problem = {};            // why there are none though there should be
  CheckOptions options = {};
  std::string made_by = {};  // "allocmark 1.2.3 (git abc)"; empty where bundle.json does not say
};

[[nodiscard]] BundleView view_bundle(TarContents contents, const CheckOptions& options);

struct BundleRule {
  const char* name;
  const char* question;
  void (*apply)(const BundleView& view, CheckedRule& rule);
};

// "caching [unset] gpt2_train_amp 1.05x seed 1".
[[nodiscard]] std::string name_of(const CellKey& key);
void broken(CheckedRule& rule, std::string finding);
void not_checked(CheckedRule& rule, std::string finding);
template <typename First, typename... Rest>
void broken(CheckedRule& rule, fmt::format_string<First, Rest...> text, First&& first,
            Rest&&... rest) {
  broken(rule, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}
template <typename First, typename... Rest>
void not_checked(CheckedRule& rule, fmt::format_string<First, Rest...> text, First&& first,
                 Rest&&... rest) {
  not_checked(rule, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}
// What was made again differs: wrong, where this version made it; where another one did, only that
// one can tell.
void differs(const BundleView& view, const std::string& what, CheckedRule& rule);
// A file of the bundle, where it is there.
void must_equal(const BundleView& view, const std::string& name, const std::string& made_again,
                CheckedRule& rule);
// The same of what was made by the program of this environment.
void differs(const BundleView& view, const Environment& maker, const std::string& what,
             CheckedRule& rule);
// The runs that can be read.
[[nodiscard]] std::vector<const StoredRun*> runs_of(const BundleView& view);
[[nodiscard]] bool same_program(const Environment& a, const Environment& b);
// Whether this program is the one of the environment.
[[nodiscard]] bool made_here(const BundleView& view, const Environment& maker);
// Says that the rule cannot be checked where there is no run.
[[nodiscard]] bool needs_run(const BundleView& view, CheckedRule& rule);

// In bundle_runs.cc.
void results_whole(const BundleView& view, CheckedRule& rule);
void plan_complete(const BundleView& view, CheckedRule& rule);
void plan_kept(const BundleView& view, CheckedRule& rule);
void work_same(const BundleView& view, CheckedRule& rule);
void samples_enough(const BundleView& view, CheckedRule& rule);
void environment_fit(const BundleView& view, CheckedRule& rule);
// In bundle_cells.cc.
void cells_consistent(const BundleView& view, CheckedRule& rule);
// In bundle_bounds.cc: what no machine can have measured, a sentence each.
[[nodiscard]] std::vector<std::string> impossible_times(const CellResult& cell,
                                                        const Environment& environment);
[[nodiscard]] std::vector<std::string> impossible_environment(const Environment& environment);
// Parts without which no other number could be held against them. `scales`: the run's cells have
// times scaled to another host.
[[nodiscard]] std::vector<std::string> missing_parts(const CellResult& cell,
                                                     const Environment& environment, bool scales);
// 13 of "1.13.0".
[[nodiscard]] int schema_minor(const Environment& environment);
// In bundle_names.cc.
void names_known(const BundleView& view, CheckedRule& rule);
// In bundle_simulated.cc.
void cells_simulated(const BundleView& view, CheckedRule& rule);
// In bundle_quiet.cc.
void machine_quiet(const BundleView& view, CheckedRule& rule);
// In bundle_remade.cc.
void traces_regenerated(const BundleView& view, CheckedRule& rule);
void texts_unchanged(const BundleView& view, CheckedRule& rule);
void tables_recomputed(const BundleView& view, CheckedRule& rule);
void verdicts_recomputed(const BundleView& view, CheckedRule& rule);

// In the order in which they are reported.
[[nodiscard]] std::span<const BundleRule> bundle_rules();

}  // namespace allocmark
