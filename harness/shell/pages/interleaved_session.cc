// See interleaved_session.h.
#include "harness/shell/pages/interleaved_session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include "base/error.h"
#include "base/output_file.h"
#include "base/own_process.h"
#include "harness/core/run/conditions.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/folder_lock.h"
#include "harness/core/run/placement_difference.h"
#include "harness/core/run/progress.h"
#include "harness/job/interrupt.h"
#include "harness/shell/pages/run_output.h"
#include "results/compare/compare_writers.h"
#include "results/run_file.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanName = "interleaved.json";
constexpr const char* kRoundsName = "rounds.jsonl";
constexpr const char* kDifferencesName = "placements.json";

std::string session_file(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

RunFolder create_side(const InterleavedSession& session, std::size_t index) {
  const InterleavedSide& side = session.plan.sides.at(index);
  RunManifest manifest{.title = fmt::format("{}, side {}", session.title, side.label),
                       .pass_count = session.plan.pass_count,
                       .verify = session.verify,
                       .timeout_s = session.timeout_s,
                       .cells = {},
                       .program = mark_file(side.program_path)};
  for (const InterleavedCell& cell : session.plan.cells) {
    manifest.cells.push_back(index == 0 ? cell.base : cell.now);
  }
  manifest.files = mark_files(manifest.cells);
  return RunFolder::create(side_folder(session.folder, session.plan, index), manifest,
                           session.environments.at(index));
}

// What this session has written so far, which may be more than a command takes from others.
void read_own_rounds(const std::string& folder, InterleavedRun* run) {
  constexpr InputKind kOwnRounds{.name = "a results file", .size_bytes_max = UINT64_MAX};
  const std::string path = session_file(folder, kRoundsName);
  read_rounds(StoredText::of_file(path, kOwnRounds), path, run);
}

}  // namespace

std::string side_folder(const std::string& folder, const InterleavedPlan& plan, std::size_t side) {
  return session_file(folder, plan.sides.at(side).label);
}

void write_side_reports(const std::string& folder, const InterleavedPlan& plan) {
  for (std::size_t side = 0; side < kSideCount; ++side) {
    const std::string path = side_folder(folder, plan, side);
    RunFile file = read_run_file(results_path(path), CellDetail::Summary);
    add_stored_conditions(folder, &file.environment);
    write_reports(path, file.environment, stored_cells(path, &file));
  }
}

void write_comparison(const std::string& folder, const Comparison& comparison) {
  OutputFile table(session_file(folder, "comparison.txt"));
  write_comparison_table(comparison, Detail::All,
                         [&](std::string_view piece) { table.write(piece); });
  table.finish();
  OutputFile json(session_file(folder, "comparison.json"));
  write_comparison_json(comparison, [&](std::string_view piece) { json.write(piece); });
  json.finish();
}

SessionOutcome run_session(const InterleavedSession& session) {
  const FolderLock lock =
      claim_empty_folder(session.folder, "choose another one; interleaved runs cannot be resumed");
  write_file(session_file(session.folder, kPlanName), to_json(session.plan));
  std::array<RunFolder, kSideCount> sides{create_side(session, 0), create_side(session, 1)};
  LineFile rounds = LineFile::create(session_file(session.folder, kRoundsName));
  InterleavedRun run{.plan = session.plan, .environments = session.environments};

  const HostCounters counters = read_host_counters();
  const InterruptGuard interrupt;
  SessionOutcome outcome;
  PlacementDifferences placements(session.plan, session.folder);
  {
    const std::uint32_t first_look = look_rounds(session.plan).front();
    std::uint64_t process_count = 0;
    for (const InterleavedCell& cell : session.plan.cells) {
      process_count += kSideCount * std::min(cell.round_count_max, first_look);
    }
    Progress progress(stderr, isatty(STDERR_FILENO) == 1, process_count, 0);
    const auto look = [&] {
      read_own_rounds(session.folder, &run);
      std::set<std::size_t> open = cells_to_go_on(run, session.policy);
      if (!open.empty()) {
        fmt::print(stderr, "{} cells are undecided and go on\n", open.size());
      }
      return open;
    };
    outcome.completed = run_interleaved(session.plan,
                                        {.verify = session.verify,
                                         .timeout_s = session.timeout_s,
                                         .job_count = session.job_count,
                                         .interrupt = &interrupt,
                                         .placements = &placements},
                                        look, [&](const RoundResult& result) {
                                          rounds.append(to_json_line(result));
                                          if (result.round == 0) {
                                            sides.at(result.side).append(result.cell);
                                          }
                                          if (result.round < first_look) {
                                            progress.cell_done(result.cell);
                                          }
                                        });
  }
  store_conditions(session.folder, conditions_between(counters, read_host_counters(),
                                                      session.environments.front().cpu_count));
  add_stored_conditions(session.folder, &run.environments.front());
  run.first_differences = placements.texts();
  if (!run.first_differences.empty()) {
    write_file(session_file(session.folder, kDifferencesName),
               first_differences_json(run.first_differences));
  }
  read_own_rounds(session.folder, &run);
  outcome.comparison = compare_interleaved(run, session.policy);
  write_side_reports(session.folder, session.plan);
  write_comparison(session.folder, outcome.comparison);
  return outcome;
}

bool is_interleaved(const std::string& folder) {
  return fs::exists(session_file(folder, kPlanName));
}

InterleavedRun read_interleaved(const std::string& folder) {
  InterleavedRun run;
  const std::string plan_path = session_file(folder, kPlanName);
  run.plan = interleaved_plan_from_json(read_file(plan_path, kPlanInput), plan_path);
  for (std::size_t i = 0; i < kSideCount; ++i) {
    run.environments.at(i) =
        read_run_file(results_path(session_file(folder, run.plan.sides.at(i).label)),
                      CellDetail::Outline)
            .environment;
  }
  add_stored_conditions(folder, &run.environments.front());
  const std::string rounds_path = session_file(folder, kRoundsName);
  read_rounds(StoredText::of_file(rounds_path, kResultsInput), rounds_path, &run);
  const std::string differences_path = session_file(folder, kDifferencesName);
  if (fs::exists(differences_path)) {
    run.first_differences =
        first_differences_from_json(read_file(differences_path, kPlanInput), differences_path);
  }
  return run;
}

Environment side_environment(const Environment& host, const std::string& device,
                             const InterleavedSide& side, bool allow_debug) {
  Environment environment = host;
  if (side.program_path == own_program_path()) return environment;
  const DeviceAnswer answer = describe_device(device, side.program_path);
  if (!answer.failure.empty()) {
    throw EnvironmentError({.what = fmt::format("the program of side {} does not work", side.label),
                            .where = side.program_path,
                            .wanted = fmt::format("an allocmark that can use {}", device),
                            .got = answer.failure,
                            .next = "name the program itself, as in build/release/bin/allocmark"});
  }
  merge_device(answer.facts, &environment);
  merge_build(answer.facts, &environment);
  for (const std::string& warning : answer.facts.warnings) {
    if (!allow_debug) {
      throw UsageError({.what = warning,
                        .where = fmt::format("the program of side {}", side.label),
                        .wanted = "an optimised build",
                        .next = "build it with 'cmake --preset release', or add --allow-debug"});
    }
    environment.warnings.push_back(side.label + ": " + warning);
  }
  return environment;
}

}  // namespace allocmark
