// Two runs held against each other, cell by cell: what is exact compares exactly, what is timed
// compares statistically, and what cannot be compared says why. Flows in: two runs' files, a policy
// and a calibration; flows out: verdicts with the numbers they rest on. Neither times nor checks
// allocators. results/compare/VERDICTS.md, "Comparing two runs", says how each verdict is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/optional_number.h"
#include "base/shared_text.h"
#include "results/cell_source.h"
#include "results/compare/compare_policy.h"
#include "results/latency_histogram.h"
#include "results/run_file.h"
#include "results/schema.h"

namespace allocmark {

// By rank: a cell's verdict is the first of its numbers' verdicts in this order.
enum class Verdict : std::uint8_t {
  Worse,
  NotComparable,
  Better,
  Changed,  // differs exactly, in a way that is neither better nor worse (where blocks lie)
  Undecided,
  Same
};
inline constexpr std::size_t kVerdictCount = 6;
[[nodiscard]] std::string_view to_string(Verdict verdict);

struct RunSide {
  std::string label = {};  // "BASE" or the path, for messages
  RunFile file = {};
  // Every cell that the run was to have, or those of them without a result; empty where not known.
  std::vector<CellKey> planned = {};
  CellSource whole = {};  // the file's cells, where `file` has only their outlines
};

// One number of a cell.
struct NumberComparison {
  SharedText name = {};  // as stored: "reserved_bytes_peak"
  bool timed = false;
  OptionalNumber base = {}, now = {};        // absent for texts and where not known
  SharedText base_text = {}, now_text = {};  // hashes and statuses
  std::optional<Estimate> base_interval = {},
                          now_interval = {};  // of quantiles, from order statistics
  // now / base - 1; positive is more. Timed numbers have the interval at the policy's confidence.
  OptionalNumber change = {}, change_low = {}, change_high = {};
  OptionalNumber p_value = {}, p_value_adjusted = {};
  Verdict verdict = Verdict::Same;
  bool gated = true;       // whether the policy lets it fail the comparison
  SharedText reason = {};  // empty where the numbers say it all
  bool safety = false;     // more of it is worse whatever else is; undecided is no pass
  bool excused = false;    // not compared, and no fault of either side: it decides nothing
  // Rounds (of runs: passes) that would probably decide it, where it is undecided for want of them.
  std::optional<std::uint32_t> rounds_needed = {};

  void decide(Verdict decided, SharedText why) {
    verdict = decided;
    reason = std::move(why);
  }
};

struct CellComparison {
  CellKey key = {};
  std::optional<CellKey> now_key = {};  // where NEW's cell is another one, as in A/B runs
  Verdict verdict = Verdict::Same;
  std::string reason = {};  // empty where the numbers say it all
  bool gated = true;
  double now_wall_s = 0;  // that NEW's cell took, all of it
  std::vector<NumberComparison> numbers = {};
  std::size_t same_left_out = 0;        // exact numbers that are the same and not listed above
  std::vector<std::string> flags = {};  // "BASE: allocate drifts ..."
  // The first request that the sides placed differently, in words; empty where not known.
  std::string first_difference = {};
  [[nodiscard]] double change_abs_max() const;  // of the numbers that gave the verdict
};

// A cell without a result that can be compared.
struct IncompleteCell {
  CellKey key = {};
  std::string reason = {};  // "NEW: crashed: signal 11"
};

struct Comparison {
  std::string base_label = {}, now_label = {};
  Environment base_environment = {}, now_environment = {};
  std::vector<CellComparison> cells = {};  // by importance
  std::vector<IncompleteCell> incomplete = {};
  std::vector<std::string> notes = {};     // what to know before reading the verdicts
  std::vector<std::string> faults = {};    // what is wrong with the files; each fails it
  std::vector<std::string> failures = {};  // why it fails, one sentence each; empty where it passes
  std::vector<std::size_t> verdict_counts = std::vector<std::size_t>(kVerdictCount, 0);
  std::size_t skipped_count = 0;  // cells that neither run could do
  std::size_t regression_count = 0;
  bool calibrated = false;
  bool interleaved = false;  // every timed number comes from rounds in which both sides took turns
  ExitCode exit_code = ExitCode::Pass;
};

// Whether exact numbers that are the same are listed, which are most numbers of most runs.
enum class NumbersKept : std::uint8_t { All, Differing };

[[nodiscard]] Comparison compare_runs(const RunSide& base, const RunSide& now,
                                      const ComparePolicy& policy,
                                      const std::optional<Calibration>& calibration,
                                      NumbersKept kept = NumbersKept::All);

// What A/A runs on one machine say: for every timed number how far apart two runs of the same thing
// come. Throws UsageError where the runs are not of one machine and build, or have too few cells.
[[nodiscard]] Calibration calibrate(const std::vector<RunSide>& runs);

}  // namespace allocmark
