// Whether a bundle is what it says: complete, consistent, with enough samples, and made from its
// raw results. Files of a bundle flow in; one outcome per rule flows out. Bad bundles are answers,
// not exceptions. results/BUNDLES.md lists the rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "workloads/trace/archive.h"

namespace allocmark {

enum class RuleOutcome : std::uint8_t {
  Kept,
  Broken,
  NotChecked,    // it could not be decided, and the findings say why: never a pass
  NotApplicable  // the bundle has nothing of the kind
};
[[nodiscard]] std::string_view to_string(RuleOutcome outcome);

struct CheckedRule {
  std::string name = {};      // "hashes-match"
  std::string question = {};  // "Is every file the one that was bundled?"
  RuleOutcome outcome = RuleOutcome::Kept;
  std::vector<std::string> findings = {};      // why it is broken or was not checked
  std::vector<std::string> reservations = {};  // with which the bundle can be published
  std::vector<std::string> notes = {};         // what to know though it is kept
  // Of cells-simulated: lines of results, of the baseline as well, and those that were made again.
  std::uint64_t cell_count = 0, cells_made_again = 0;
};

struct BundleCheck {
  std::vector<CheckedRule> rules = {};
  ExitCode exit_code = ExitCode::Pass;  // Regression where a rule is broken, else CellsIncomplete
                                        // where one was not checked
};

struct CheckOptions {
  std::string version = {};       // this program's, which a bundle's made_by is held against
  std::string program_path = {};  // what simulates cells again; empty: none are
  bool rerun_all = false;         // else only cells with at most kQuickEventsMax events
  double seconds = 20;            // for the traces that are made again, and as much for the cells
};
inline constexpr std::uint64_t kQuickEventsMax = 200'000;

[[nodiscard]] BundleCheck check_bundle(TarContents contents, const CheckOptions& options);
// Without simulating cells again.
[[nodiscard]] BundleCheck check_bundle(TarContents contents, const std::string& version);

[[nodiscard]] std::string render_check(const BundleCheck& check);
[[nodiscard]] std::string render_check_json(const BundleCheck& check);

}  // namespace allocmark
