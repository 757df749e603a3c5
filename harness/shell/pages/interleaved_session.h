// The folder of an interleaved run and the session that fills it: interleaved.json (the plan),
// rounds.jsonl (every process's result), one run folder per side with its first round,
// conditions.json and the comparison. A session flows in; a comparison flows out.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "harness/core/run/interleave.h"
#include "harness/core/run/run_folder.h"
#include "results/compare/compare_policy.h"
#include "results/compare/interleaved.h"

namespace allocmark {

struct InterleavedSession {
  InterleavedPlan plan = {};
  std::array<Environment, kSideCount> environments = {};
  VerifyLevel verify = VerifyLevel::Edges;
  std::uint64_t timeout_s = 0;
  std::uint32_t job_count = 1;
  std::string title = {};
  std::string folder = {};
  ComparePolicy policy = {};
};

struct SessionOutcome {
  Comparison comparison = {};
  bool completed = false;  // false where it was interrupted
};

// Creates the folder, which must be new or empty, and runs all rounds.
[[nodiscard]] SessionOutcome run_session(const InterleavedSession& session);

// Whether the folder holds an interleaved run.
[[nodiscard]] bool is_interleaved(const std::string& folder);
// Throws FileError naming the file that cannot be read.
[[nodiscard]] InterleavedRun read_interleaved(const std::string& folder);

// The folder of side 0 or 1 in the interleaved run's folder, with its first round.
[[nodiscard]] std::string side_folder(const std::string& folder, const InterleavedPlan& plan,
                                      std::size_t side);
// Both sides' report.md, table.txt, table.csv and google_benchmark.json.
void write_side_reports(const std::string& folder, const InterleavedPlan& plan);
// comparison.txt and comparison.json.
void write_comparison(const std::string& folder, const Comparison& comparison);

// The environment of a side: this host, and the build of the program that runs the side's cells.
// Throws EnvironmentError where the program is no allocmark or cannot use the device.
[[nodiscard]] Environment side_environment(const Environment& host, const std::string& device,
                                           const InterleavedSide& side, bool allow_debug);

}  // namespace allocmark
