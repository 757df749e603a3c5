// The rules of bundle_check.h on what a bundle holds, one function each. Neither times nor checks
// allocators.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/core/run/run_folder.h"
#include "harness/tools/bundle/bundle.h"
#include "harness/tools/bundle/bundle_check.h"
#include "results/cell_source.h"
#include "results/run_file.h"
#include "workloads/trace/archive.h"

namespace allocmark {

// A bundle as the rules see it.
struct BundleView {
  std::string damage = {};                     // of the archive
  std::vector<std::string> unsafe_names = {};  // "../x: leads out of the bundle"
  std::vector<std::string> too_large = {};     // files that are longer than of their kind
  BundleFiles files = {};                      // the other ones with safe names
  std::optional<RunFile> run = {};             // its cells as summaries
  CellSource whole = {};                       // the same cells
  std::string run_problem = {};                // why there is no run
  std::optional<RunManifest> plan = {};
  std::string plan_problem = {};
  std::optional<InterleavedRun> turns = {};  // of an A/B run
  std::string turns_problem = {};            // why there are none though there should be
  CheckOptions options = {};
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
// What was made again differs: wrong, where this version made it; where another one did, only that
// one can tell.
void differs(const BundleView& view, const std::string& what, CheckedRule& rule);
// A file of the bundle, where it is there.
void must_equal(const BundleView& view, const std::string& name, const std::string& made_again,
                CheckedRule& rule);
// Says that the rule cannot be checked where there is no run.
[[nodiscard]] bool needs_run(const BundleView& view, CheckedRule& rule);

// In bundle_cells.cc.
void cells_consistent(const BundleView& view, CheckedRule& rule);
// In bundle_bounds.cc: what no machine can have measured, a sentence each.
[[nodiscard]] std::vector<std::string> impossible_times(const CellResult& cell,
                                                        const Environment& environment);
[[nodiscard]] std::vector<std::string> impossible_environment(const Environment& environment);
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
