// See confirm.h.
#include "harness/tools/compare/confirm.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include "base/error.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/folder_lock.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/pages/interleaved_session.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

struct SideInput {
  std::string label, path, option;
  std::string program_given;
};

[[noreturn]] void refuse(const SideInput& side, std::string what, std::string wanted,
                         std::string got, std::string next) {
  throw UsageError({.what = fmt::format("cannot confirm: {}", what),
                    .where = fmt::format("{} ({})", side.label, side.path),
                    .wanted = std::move(wanted),
                    .got = std::move(got),
                    .next = std::move(next)});
}

// The program that made the run: the one that was given, else the one in the run's plan, as long as
// it is still the same.
std::string program_of(const SideInput& side, const FileMark& recorded) {
  const std::string next = fmt::format(
      "give {} PATH, or run both in turn from the start: allocmark run --ab A B", side.option);
  if (!side.program_given.empty()) {
    std::error_code error;
    if (fs::is_regular_file(side.program_given, error)) {
      return fs::canonical(side.program_given).string();
    }
    refuse(side, "there is no such program", side.option + " PATH", side.program_given, next);
  }
  if (recorded.path.empty()) {
    refuse(side, "its plan does not say which program made it",
           "a plan.json of this version, beside the results", "", next);
  }
  const FileMark today = mark_file(recorded.path);
  if (today.hash.empty()) {
    refuse(side, "the program that made it is gone", recorded.path, "no such file", next);
  }
  if (today.hash != recorded.hash) {
    refuse(side, "the program that made it has been built anew since",
           fmt::format("{} with hash {}", recorded.path, recorded.hash), today.hash, next);
  }
  return recorded.path;
}

void check_files(const SideInput& side, const std::vector<FileMark>& files) {
  for (const FileMark& file : files) {
    if (mark_file(file.path) == file) continue;
    refuse(side, "a file that its cells name has changed since",
           fmt::format("{} with hash {}", file.path, file.hash), "another file, or none",
           "put it back as it was; two builds of a plugin run in turn with: allocmark run --ab "
           "pluggable:OLD.so pluggable:NEW.so");
  }
}

RunManifest manifest_of(const SideInput& side) {
  if (fs::is_directory(side.path)) return read_manifest(side.path);
  if (!side.program_given.empty()) return {};
  refuse(side, "a results file alone does not say what made it", "the run's folder, with plan.json",
         "a file", fmt::format("give the folder, or {} PATH", side.option));
}

std::string folder_beside(const std::string& run) {
  fs::path path = fs::absolute(run).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (!fs::is_directory(path)) path = path.parent_path();
  return fmt::format("{}-confirm-{:%Y%m%dT%H%M%SZ}", path.string(),
                     fmt::gmtime(std::time(nullptr)));
}

// A program may have been given that is not the one of the run; its results then say so, since the
// work and the exact numbers are compared again.
InterleavedSession make_session(const CompareCommand& command, const ComparePolicy& policy,
                                const std::string& device) {
  const std::array<SideInput, kSideCount> inputs{SideInput{.label = "BASE",
                                                           .path = command.runs[0],
                                                           .option = "--base-program",
                                                           .program_given = command.base_program},
                                                 SideInput{.label = "NEW",
                                                           .path = command.runs[1],
                                                           .option = "--new-program",
                                                           .program_given = command.new_program}};
  InterleavedSession session{.title = "confirmation", .policy = policy};
  session.policy.calibration_required = false;
  std::array<std::string, kSideCount> hashes;
  for (std::size_t i = 0; i < kSideCount; ++i) {
    const SideInput& input = inputs.at(i);
    const RunManifest manifest = manifest_of(input);
    check_files(input, manifest.files);
    const std::string program = program_of(input, manifest.program);
    hashes.at(i) = mark_file(program).hash;
    session.plan.sides.at(i) = {.label = input.label, .text = input.path, .program_path = program};
    session.plan.pass_count = command.pass_count.value_or(manifest.pass_count);
    session.plan.pass_count_max = command.pass_count.value_or(kPassCountMax);
    session.verify = manifest.verify;
    session.timeout_s = std::max(session.timeout_s, manifest.timeout_s);
  }
  if (hashes[0] == hashes[1]) {
    fmt::print(stderr,
               "note: one program made both runs: the confirmation runs it against itself\n");
  }
  Environment host = host_environment(command.argv);
  const DeviceChoice choice = choose_device(device, session.plan.sides[1].program_path);
  merge_device(choice.facts, &host);
  for (std::size_t i = 0; i < kSideCount; ++i) {
    // The runs themselves were allowed to be of an unoptimised build.
    session.environments.at(i) = side_environment(host, device, session.plan.sides.at(i), true);
  }
  session.environments.back().warnings.clear();
  return session;
}

void check_machine(const Comparison& comparison, const std::string& here,
                   std::string Environment::*mark) {
  for (const Environment* run : {&comparison.base_environment, &comparison.now_environment}) {
    if (run->*mark == here) continue;
    throw UsageError({.what = "cannot confirm: the runs were made on another machine",
                      .where = "--confirm",
                      .wanted = "the machine that made both runs",
                      .got = fmt::format("{} (of the run), {} (here)", run->*mark, here),
                      .next = "compare with --confirm there, or run both sides here: allocmark run "
                              "--ab A B"});
  }
}

}  // namespace

void confirm(const CompareCommand& command, const ComparePolicy& policy, Comparison& comparison) {
  const std::uint32_t round_count_max =
      std::max(command.interleave.round_count, command.interleave.round_count_max);
  std::vector<InterleavedCell> cells = suspects(comparison, policy, round_count_max);
  if (cells.empty()) {
    comparison.notes.push_back(
        "confirmation: no cell looks better or worse; nothing was run again");
    return;
  }
  // Before anything is started that a plan names: a folder from elsewhere cannot know this
  // machine's hash.
  check_machine(comparison, host_hash(), &Environment::hostname_hash);
  InterleavedSession session = make_session(command, policy, comparison.now_environment.device);
  check_machine(comparison, session.environments.front().gpu_uuid_hash,
                &Environment::gpu_uuid_hash);
  session.plan.order_seed = command.interleave.order_seed;
  session.plan.turns_by_pass = command.interleave.turns == "pass";
  session.plan.round_count = command.interleave.round_count;
  session.plan.round_count_max = round_count_max;
  session.plan.cells = std::move(cells);
  session.job_count = command.job_count;
  session.folder = command.confirm_out.empty() ? make_new_folder(folder_beside(command.runs[1]))
                                               : command.confirm_out;
  fmt::print(stderr, "confirmation: {} of {} cells are run again, in {} to {} rounds\n",
             session.plan.cells.size(), comparison.cells.size(), session.plan.round_count,
             session.plan.round_count_max);
  const SessionOutcome outcome = run_session(session);
  if (!outcome.completed) comparison.faults.push_back("the confirmation was interrupted");
  for (const std::string& note : outcome.comparison.notes) {
    comparison.notes.push_back("confirmation: " + note);
  }
  comparison.notes.push_back(
      fmt::format("confirmation: {} cells were run again, both sides in turn; results: {}",
                  session.plan.cells.size(), session.folder));
  apply_confirmation(outcome.comparison, policy, comparison);
}

}  // namespace allocmark
