// See reproduce.h.
#include "harness/tools/reproduce/reproduce.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/bundled/scratch_folder.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/measure/host_reference.h"
#include "harness/core/measure/host_scale.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/progress.h"
#include "harness/core/run/run.h"
#include "harness/job/interrupt.h"
#include "harness/shell/pages/run_specs.h"
#include "results/compare/timed_numbers.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

// Of a cell whose plan has none: numbers of others decide how much there is to do.
constexpr std::uint64_t kUntimedPlanTimeoutS = 3600;

constexpr const char* kTrustNext = "--trust opens what a bundle of your own names";

// A library that the cell's config string names, or may name.
bool names_library(const CellKey& key) {
  return key.allocator.starts_with("pluggable") || key.conf_text().find('/') != std::string::npos;
}

// Why the cell is not run; empty where it can be. `device_failure`: of the run's device.
std::string obstacle_of(const CellResult& cell, const Environment& published,
                        const std::string& device_failure, bool trusted) {
  const CellKey& key = cell.key;
  if (!is_measured(cell) && cell.status != CellStatus::Skipped) {
    return "it has no numbers: it ended as " + std::string(to_string(cell.status));
  }
  if (key.device != published.device) {
    return fmt::format("it is of {}, and the run of {}", key.device, published.device);
  }
  if (!device_failure.empty()) return device_failure;
  if (!trusted && names_files(key)) {
    return std::string("its trace files are not in the bundle: ") + kTrustNext;
  }
  if (!trusted && names_library(key)) {
    return std::string("it loads a library that it names: ") + kTrustNext;
  }
  try {
    check_runs_here(find_backend(key.allocator), key.conf_text());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// On which device the cells run here.
const std::string& device_here(const PublishedRun& run, const ReproduceOptions& options) {
  return options.device.empty() ? run.environment.device : options.device;
}

// The cell as it is run here.
CellKey key_here(const PublishedRun& run, std::size_t index, const ReproduceOptions& options) {
  CellKey key = run.cells[index].key;
  key.device = device_here(run, options);
  return key;
}

// What to try where the run's device is not here.
std::string simulated_next(const PublishedRun& run) {
  return is_simulated(run.environment.device)
             ? ""
             : ". --on sim:h200, or another card of 'allocmark list cards', runs its cells on a "
               "simulated one";
}

// Why nothing runs on the device here; its facts where it works.
std::string ask_device(const PublishedRun& run, const ReproduceOptions& options,
                       Environment* environment, std::vector<std::string>* notes) {
  const std::string& device = device_here(run, options);
  if (!options.trusted && names_profile_file(device)) {
    return std::string("its device's profile is a file of its own: ") + kTrustNext;
  }
  const DeviceAnswer answer = describe_device(device, options.program_path);
  if (!answer.failure.empty()) {
    return fmt::format("{} does not work here: {}{}", device, answer.failure, simulated_next(run));
  }
  merge_device(answer.facts, environment);
  if (device != run.environment.device) {
    notes->push_back(fmt::format(
        "it ran on {}, and runs on {} here: only what programs and allocators decide is compared, "
        "and no time",
        run.environment.device, device));
  }
  if (environment->gpu_name != run.environment.gpu_name) {
    notes->push_back(fmt::format("it ran on {}, and {} is {} here", run.environment.gpu_name,
                                 device, environment->gpu_name));
  }
  return "";
}

void say_who_made_it(const Environment& published, const Environment& here,
                     std::vector<std::string>* notes) {
  if (published.allocmark_version != here.allocmark_version || published.git_sha != here.git_sha) {
    notes->push_back(fmt::format(
        "allocmark {} (git {}) measured it, and this is {}: a number that differs may be a change "
        "that the CHANGELOG names",
        published.allocmark_version, published.git_sha.substr(0, 12), version_text()));
  }
  if (published.cpu_model != here.cpu_model) {
    notes->push_back(
        fmt::format("its processor is {}, this one's is {}: the intervals are for a "
                    "repeat on its machine",
                    published.cpu_model, here.cpu_model));
  }
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    notes->push_back("times of this build mean nothing: " + reason);
  }
}

// The published cells as they are to be run, in the order of `indexes`.
std::vector<CellSpec> specs_of(const PublishedRun& run, std::span<const std::size_t> indexes,
                               const SpecSettings& settings, const ReproduceOptions& options) {
  RunManifest plan = run.plan;
  plan.width_max = 0;  // as many passes as there were
  if (plan.timeout_s == 0) plan.timeout_s = kUntimedPlanTimeoutS;
  std::vector<CellKey> keys;
  for (const std::size_t index : indexes) keys.push_back(key_here(run, index, options));
  std::vector<CellSpec> specs = remaining_specs(keys, {}, plan, "", settings);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const CellResult& cell = run.cells[indexes[i]];
    if (is_measured(cell)) specs[i].pass_count = cell.pass_count;
    specs[i].in_rounds = specs[i].in_rounds && is_simulated(specs[i].key.device);
  }
  return specs;
}

// Recording placements asks the driver, which shifts the noise of later calls; whether a run did is
// stored nowhere.
void try_with_placements(const PublishedRun& run, const std::vector<CellSpec>& specs,
                         const std::vector<std::size_t>& indexes, const RunCellsOptions& options,
                         std::vector<CellAgain>* cells) {
  const ScratchFolder scratch;
  std::vector<CellSpec> again;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const CellKey& key = specs[i].key;
    if (cells->at(indexes[i]).verdict != CellVerdict::Differs || !is_simulated(key.device))
      continue;
    again.push_back(specs[i]);
    again.back().in_rounds = false;
    again.back().placements_path = scratch.path_of(key.id() + ".txt");
    places[key.id()] = indexes[i];
  }
  (void)run_cells(again, options, [&](const CellResult& result) {
    const std::size_t index = places.at(result.key.id());
    CellAgain second = judge_cell(run.whole.whole(index), result);
    if (second.verdict != CellVerdict::Agrees) return;
    second.timed = std::move(cells->at(index).timed);
    cells->at(index) = std::move(second);
  });
}

void judge_folder(const PublishedRun& run, const std::string& folder,
                  const std::vector<std::size_t>& indexes, const ReproduceOptions& options,
                  std::vector<CellAgain>* cells) {
  const RunFile file = read_run_file(results_path(folder), CellDetail::Summary);
  const CellSource whole = cells_of_file(results_path(folder), file.places);
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < file.cells.size(); ++i) places[file.cells[i].key.id()] = i;
  for (const std::size_t index : indexes) {
    const auto found = places.find(key_here(run, index, options).id());
    if (found == places.end()) {
      cells->at(index).reason = "the run was interrupted before it";
      continue;
    }
    cells->at(index) = judge_cell(run.whole.whole(index), whole.whole(found->second));
  }
}

void run_here(const PublishedRun& run, const std::vector<std::size_t>& indexes,
              const Environment& environment, const ReproduceOptions& options,
              std::vector<CellAgain>* cells) {
  const InterruptGuard interrupt;
  const RunCellsOptions running{.program_path = options.program_path,
                                .job_count = options.job_count > 0
                                                 ? options.job_count
                                                 : default_job_count(device_here(run, options)),
                                .interrupt = &interrupt};
  const std::vector<CellSpec> specs = specs_of(
      run, indexes, {.job_count = running.job_count, .host_target = host_target_of(environment)},
      options);
  const ScratchFolder scratch;
  const std::string folder = options.folder.empty() ? scratch.path_of("run") : options.folder;
  RunManifest manifest = run.plan;
  manifest.title = "reproduction of " + run.plan.title;
  manifest.timelines = false;
  manifest.cells.clear();
  for (const CellSpec& spec : specs) manifest.cells.push_back(spec.key);
  bool completed = false;
  {
    RunFolder results = RunFolder::create(folder, manifest, environment);
    std::vector<double> host_references_ns;
    Progress progress(stderr, isatty(STDERR_FILENO) == 1, specs.size(), 0);
    const bool spread = std::ranges::any_of(specs, &CellSpec::in_rounds);
    completed = run_specs(specs, spread, running,
                          {.results = results,
                           .basis = {.clock_step_ns = environment.clock_resolution_ns},
                           .progress = progress,
                           .host_references_ns = host_references_ns});
    if (completed) results.finish();
  }
  judge_folder(run, folder, indexes, options, cells);
  if (completed) try_with_placements(run, specs, indexes, running, cells);
}

std::vector<TimedNumberAgain> timed_again(const CellResult& stored, const CellResult& again) {
  const RepeatInterval* const intervals[] = {
      &stored.repeat.allocate_p50, &stored.repeat.allocate_p99, &stored.repeat.deallocate_p50,
      &stored.repeat.deallocate_p99};
  std::vector<TimedNumberAgain> timed;
  const std::span<const TimedNumber> numbers = latency_numbers();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const RepeatInterval& interval = *intervals[i];
    const std::optional<double> value = stored_value(again, numbers[i]);
    if (interval.high_ns <= 0 || !value) continue;
    timed.push_back({.name = std::string(numbers[i].name),
                     .low_ns = interval.low_ns,
                     .high_ns = interval.high_ns,
                     .again_ns = *value,
                     .inside = *value >= interval.low_ns && *value <= interval.high_ns});
  }
  return timed;
}

}  // namespace

CellAgain judge_cell(const CellResult& stored, const CellResult& again) {
  CellAgain cell{.key = stored.key};
  const bool both_skipped =
      stored.status == CellStatus::Skipped && again.status == CellStatus::Skipped;
  if (is_bounded_otherwise(stored, again)) {
    cell.reason = "this machine can pin another amount of memory than the one that ran it";
    return cell;
  }
  if (!is_measured(again) && !both_skipped) {
    cell.reason = fmt::format("it ended here as {}: {}", to_string(again.status), again.reason);
    return cell;
  }
  cell.exact = exact_numbers(stored, again);
  const bool agrees = std::ranges::all_of(cell.exact, &ExactAgain::agrees);
  cell.verdict = agrees ? CellVerdict::Agrees : CellVerdict::Differs;
  // The interval is for a repeat on the same device.
  const bool same_device = stored.key.device == again.key.device;
  if (is_measured(stored) && same_device) cell.timed = timed_again(stored, again);
  return cell;
}

Reproduction reproduce(const PublishedRun& run, const ReproduceOptions& options) {
  Reproduction made{.notes = run.notes, .complete = run.complete};
  Environment environment = host_environment({});
  const std::string failure = ask_device(run, options, &environment, &made.notes);
  say_who_made_it(run.environment, environment, &made.notes);
  std::vector<std::size_t> indexes;
  for (std::size_t index = 0; index < run.cells.size(); ++index) {
    CellAgain cell{.key = run.cells[index].key};
    cell.reason = obstacle_of(run.cells[index], run.environment, failure, options.trusted);
    if (cell.reason.empty()) indexes.push_back(index);
    made.cells.push_back(std::move(cell));
  }
  if (indexes.empty()) return made;
  environment.host_reference_ns = HostReference().measure_quiet_ns();
  run_here(run, indexes, environment, options, &made.cells);
  return made;
}

ExitCode exit_code_of(const Reproduction& reproduction) {
  const auto has = [&](CellVerdict verdict) {
    return std::ranges::any_of(reproduction.cells,
                               [&](const CellAgain& cell) { return cell.verdict == verdict; });
  };
  if (has(CellVerdict::Differs)) return ExitCode::Regression;
  const bool all_run = reproduction.complete && !has(CellVerdict::NotRun);
  return all_run ? ExitCode::Pass : ExitCode::CellsIncomplete;
}

}  // namespace allocmark
