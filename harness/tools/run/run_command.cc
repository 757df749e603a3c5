// 'allocmark run': checks everything that was asked for, runs the cells, writes the folder, prints
// the answer.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "base/input_file.h"
#include "base/median.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/measure/host_reference.h"
#include "harness/core/measure/host_scale.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/core/run/conditions.h"
#include "harness/core/run/device_sharing.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/plan.h"
#include "harness/core/run/progress.h"
#include "harness/core/run/run_folder.h"
#include "harness/job/interrupt.h"
#include "harness/shell/pages/compare_input.h"
#include "harness/shell/pages/report_pages.h"
#include "harness/shell/pages/run_output.h"
#include "harness/shell/pages/run_specs.h"
#include "harness/shell/question/known_allocators.h"
#include "harness/shell/terminal.h"
#include "harness/tools/run/named_pictures.h"
#include "harness/tools/run/run_options.h"
#include "harness/tools/run/run_request.h"
#include "harness/tools/run/run_soak.h"
#include "results/compare/compare_environment.h"
#include "results/compare/compare_policy.h"
#include "results/compare/repeat.h"
#include "results/derived.h"
#include "workloads/scenario.h"

namespace allocmark {
namespace {

bool names_cells(const RunCommand& command) {
  return !command.suite.empty() || !command.scenario.empty() || !command.workloads.empty() ||
         !command.allocators.empty() || !command.confs.empty() || !command.capacities.empty() ||
         !command.seeds.empty() || !command.on_oom.empty() || !command.kernels.empty();
}

// The plan that is carried out: the manifest to store, and the cells of this shard.
struct Work {
  RunManifest manifest;
  std::vector<CellKey> cells;
  DeviceChoice device;
  std::vector<std::string> notes;
  std::vector<std::string> left_out = {};  // what is wrong with workloads that are not run
};

// An error in what a scenario says is told with its file and key, not as the user's own.
Plan plan_cells(const RunCommand& command, const RunRequest& request,
                const std::vector<PlanAllocator>& known) {
  try {
    return make_plan(request.plan, known);
  } catch (const UsageError& error) {
    ErrorText text = error.text();
    const auto blame = [&](std::string_view flag, std::string_view key, bool given) {
      if (given || command.scenario.empty() || !text.where.starts_with(flag)) return;
      text.where = fmt::format("{}, key '{}'{}", load_scenario(command.scenario).path, key,
                               text.where.substr(flag.size()));
    };
    blame("--conf", "conf", !command.confs.empty());
    blame("--capacity", "capacity", !command.capacities.empty());
    throw UsageError(std::move(text));
  }
}

// 0 where the number of passes is fixed.
double width_max_of(const RunCommand& command) {
  if (command.until_width.empty()) return 0;
  const double width = parse_share(command.until_width, "--until-width");
  if (width > 0) return width;
  throw UsageError({.what = "no interval is this narrow",
                    .where = "--until-width",
                    .wanted = "a share above 0, as 5%",
                    .got = command.until_width});
}

constexpr std::string_view kRounds = "rounds";

// Processes that wait between their passes would hold memory of a GPU that others then lack.
bool in_rounds(std::string_view order, const std::string& device) {
  if (is_simulated(device)) return order.empty() || order == kRounds;
  if (order != kRounds) return false;
  throw UsageError({.what = "passes cannot be spread over a run on a GPU",
                    .where = "--pass-order",
                    .wanted = "cells: processes that wait for their next pass hold memory of the "
                              "GPU, which other cells would lack",
                    .got = std::string(order),
                    .next = "leave it out, or run on a simulated device"});
}

// Empty where a file is gone.
std::string files_today(const std::string& workload) {
  try {
    return hash_trace_files(workload);
  } catch (const FileError&) {
    return "";
  }
}

// A scenario or a trace file may have been edited since the plan was stored. One that is gone stays
// as it was.
void define_anew(RunManifest* manifest) {
  for (const FileMark& mark : mark_trace_files(manifest->cells)) std::erase(manifest->files, mark);
  std::map<std::string, std::pair<std::string, std::string>> workloads;  // definition, files
  for (CellKey& key : manifest->cells) {
    const auto [known, is_new] = workloads.try_emplace(key.workload);
    auto& [definition, files] = known->second;
    if (is_new) {
      definition = define_workload_with_kernels(key.workload);
      files = files_today(definition.empty() ? key.workload_text() : definition);
    }
    if (!definition.empty()) key.workload_definition = definition;
    if (!files.empty()) key.workload_files = files;
  }
  for (FileMark& mark : mark_trace_files(manifest->cells)) {
    manifest->files.push_back(std::move(mark));
  }
}

void add_note(Work* work, std::string note) {
  if (!note.empty()) work->notes.push_back(std::move(note));
}

// A run that had timelines goes on with them, whatever the line says that resumes it.
bool has_timelines(const RunCommand& command) {
  if (command.timeline || !command.resume) return command.timeline;
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::path(command.out) / "plan.json", ignored)) {
    return false;
  }
  return read_manifest(command.out).timelines;
}

// Cells of the earlier run that need not run again: those whose files are there as well.
std::vector<CellResult> complete_cells(const RunFolder& results, const RunManifest& manifest,
                                       const std::string& folder) {
  std::vector<CellResult> kept = results.kept();
  std::error_code ignored;
  std::erase_if(kept, [&](const CellResult& cell) {
    return manifest.timelines && is_measured(cell) &&
           !std::filesystem::exists(timeline_path(folder, cell.key), ignored);
  });
  return kept;
}

Work plan_work(const RunCommand& command, const std::string& program_path) {
  Work work;
  const Shard shard = command.shard.empty() ? Shard{} : parse_shard(command.shard);
  if (command.resume && !names_cells(command)) {
    work.manifest = read_manifest(command.out);
    if (command.pass_count.has_value()) work.manifest.pass_count = *command.pass_count;
    if (!command.pass_order.empty()) work.manifest.in_rounds = command.pass_order == kRounds;
    define_anew(&work.manifest);
    const std::string device =
        work.manifest.cells.empty() ? command.device : work.manifest.cells.front().device;
    work.device = choose_device(device, program_path);
    add_note(&work, place_servers(&work.manifest.cells, work.device.facts.gpu_name));
  } else {
    const std::vector<PlanAllocator> known = known_allocators();
    RunRequest request = join_with_preset(command, known);
    // Planned before the device is asked, so that wrong usage is said first; the device is filled
    // in after.
    Plan plan = plan_cells(command, request, known);
    work.device = choose_device(command.device, program_path);
    check_fits_device(plan.cells, work.device.facts, known);
    for (CellKey& key : plan.cells) key.device = work.device.device;
    work.notes = request.notes;
    for (const ErrorText& error : request.left_out) {
      work.left_out.push_back("a workload is left out: " + to_string(error));
    }
    work.notes.insert(work.notes.end(), plan.notes.begin(), plan.notes.end());
    add_note(&work, place_servers(&plan.cells, work.device.facts.gpu_name));
    for (const std::string& capacity : request.plan.capacities) {
      add_note(&work, nominal_capacity_note(capacity, work.device.facts.gpu_memory_bytes));
    }
    work.manifest = {
        .title = request.title,
        .pass_count = request.pass_count,
        .width_max = width_max_of(command),
        .pass_count_max = command.until_width.empty() ? 0 : command.pass_count_max,
        .verify = command.no_verify ? VerifyLevel::Off : *parse_verify_level(command.verify),
        .timeout_s = command.timeout_s,
        .in_rounds = in_rounds(command.pass_order, work.device.device),
        .cells = std::move(plan.cells)};
    work.manifest.program = mark_file(program_path);
    work.manifest.files = mark_files(work.manifest.cells);
  }
  add_note(&work, work.device.note);
  work.manifest.timelines = has_timelines(command);
  work.cells = take_shard(work.manifest.cells, shard);
  check_reportable(work.cells, work.manifest);
  require_shareable(work.cells, command.job_count.value_or(1));
  if (command.gpu_count > 0) require_gpus(command, work.device, program_path);
  return work;
}

void print_cells(const Work& work) {
  for (const CellKey& key : work.cells) {
    fmt::print("{}  {}\n", key.id(), cell_label(key));
  }
  fmt::print("{} cells on {}, {} passes each\n", work.cells.size(), work.device.device,
             work.manifest.pass_count);
}

// What cells' intervals for a repeat rest on, where the user has measured it.
std::optional<Calibration> read_calibration(const RunCommand& command,
                                            const Environment& environment) {
  if (command.calibration.empty()) return std::nullopt;
  Calibration calibration =
      calibration_from_json(read_file(command.calibration, kCalibrationInput), command.calibration);
  check_calibration(calibration, environment, environment);
  return calibration;
}

// The pictures of the cells that the answer names; with --timeline all cells have theirs.
void draw_answer(const RunCommand& command, const RunManifest& manifest,
                 const std::vector<CellResult>& cells, const std::string& folder,
                 const RunCellsOptions& options) {
  if (manifest.timelines || !command.html) return;
  const std::vector<CellKey> named = cells_of_answer(cells);
  if (named.empty()) return;
  print_wrapped(
      stderr, fmt::format("pictures: memory over time of {} the answer names, each from an untimed "
                          "pass after all others; --timeline draws every cell",
                          named.size() == 1 ? "the cell that"
                                            : fmt::format("{} cells that", named.size())));
  const std::size_t missing_count = named.size() - draw_cells(named, folder, options);
  if (missing_count == 0) return;
  print_wrapped(stderr, fmt::format("pictures: {} of {} missing, their pass failed or took more "
                                    "than {} s",
                                    missing_count, named.size(), kPictureTimeoutS));
}

ExitCode finish(const RunCommand& command, const Work& work, const std::string& folder,
                bool completed, const RunCellsOptions& options) {
  RunFile file = read_run_file(results_path(folder), CellDetail::Summary);
  add_stored_conditions(folder, &file.environment);
  // The shard's cells in the plan's order, which does not depend on which cell ended first.
  const StoredCells stored = stored_cells(folder, &file, work.cells);
  const std::vector<CellResult>& cells = stored.summaries;
  const std::string report = write_reports(folder, file.environment, stored);
  print_results(command.format, folder, file.environment, stored);
  std::fflush(stdout);
  // Output that is meant for a program stays free of text for people.
  std::FILE* people = command.format == "table" ? stdout : stderr;
  fmt::print(people, "\n");
  print_wrapped(people, figures_note(file.environment));
  std::fflush(people);
  for (const std::string& warning : warning_summary(file.environment, cells)) {
    print_wrapped(stderr, "warning: " + warning);
  }
  fmt::print(people, "cells: {}\nresults: {}\nreport: {}\n",
             count_by_status(cells, work.cells.size()), folder, report);
  if (completed) draw_answer(command, work.manifest, cells, folder, options);
  write_pages_of_run({.folder = folder, .html = command.html && !cells.empty()}, people);
  print_answer(cells, people);
  const bool all_finished = cells.size() == work.cells.size() &&
                            std::all_of(cells.begin(), cells.end(),
                                        [](const CellResult& cell) { return is_finished(cell); });
  if (!completed) {
    fmt::print(stderr, "interrupted; to go on: allocmark run --resume --out {}\n",
               shell_word(folder));
  } else if (!all_finished) {
    fmt::print(stderr, "to run the cells without a result again: allocmark run --resume --out {}\n",
               shell_word(folder));
  }
  return all_finished ? ExitCode::Pass : ExitCode::CellsIncomplete;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print_wrapped(stderr, note);
}

void warn_of_confs(const std::vector<CellKey>& cells) {
  std::vector<UsedConf> confs;
  confs.reserve(cells.size());
  for (const CellKey& key : cells) confs.push_back({.allocator = key.allocator, .conf = key.conf});
  print_conf_warnings(confs);
}

ExitCode run_work(const RunCommand& command, const Work& work, const std::string& program_path) {
  Environment environment = host_environment(command.argv);
  merge_device(work.device.facts, &environment);
  environment.host_reference_ns = HostReference().measure_quiet_ns();
  const std::optional<Calibration> calibration = read_calibration(command, environment);
  const RepeatBasis basis{.clock_step_ns = environment.clock_resolution_ns,
                          .calibration = calibration ? &*calibration : nullptr};
  const std::string folder =
      command.out.empty() ? make_new_folder(default_folder(work.manifest.title)) : command.out;
  if (!command.soak_for.empty())
    return soak_cells(command, work.manifest, work.cells, folder, environment);

  std::vector<FileMark> marks = work.manifest.files;
  marks.push_back(mark_file(program_path));
  HostCounters counters = read_host_counters();
  counters.host_reference_ns = environment.host_reference_ns;
  std::vector<double> host_references_ns;
  const InterruptGuard interrupt;
  bool completed = false;
  const RunCellsOptions options =
      cells_options(command, work.device.device, program_path, &interrupt);
  // Nobody else writes to the folder until its reports are there as well.
  RunFolder results = RunFolder::open(command.resume, folder, work.manifest, environment);
  print_notes(results.notes());
  {
    if (!command.placements_folder.empty())
      std::filesystem::create_directories(command.placements_folder);
    std::vector<CellSpec> specs =
        remaining_specs(work.cells, complete_cells(results, work.manifest, folder), work.manifest,
                        command.placements_folder,
                        {.job_count = options.job_count,
                         .gpu_count = options.gpu_count,
                         .host_target = host_target_of(environment)});
    if (work.manifest.timelines) add_timelines(folder, &specs);
    Progress progress(stderr, isatty(STDERR_FILENO) == 1, work.cells.size(),
                      work.cells.size() - specs.size());
    completed = run_specs(specs, work.manifest.in_rounds, options,
                          {.results = results,
                           .basis = basis,
                           .progress = progress,
                           .host_references_ns = host_references_ns});
    if (completed) results.finish();
  }
  const bool changed = say_changed_files(marks);
  HostCounters counters_end = read_host_counters();
  counters_end.host_reference_ns = median(host_references_ns);
  store_conditions(folder, conditions_between(counters, counters_end, environment.cpu_count));
  const ExitCode code = finish(command, work, folder, completed, options);
  return changed ? ExitCode::CellsIncomplete : code;
}

}  // namespace

bool say_changed_files(const std::vector<FileMark>& marks) {
  const std::vector<std::string> changed = changed_since(marks);
  for (const std::string& path : changed) {
    print_warning(
        fmt::format("{} was replaced while the cells ran, so their numbers are of "
                    "two files; run them again in a new folder",
                    path));
  }
  return !changed.empty();
}

ExitCode run_command(const RunCommand& command) {
  check_usage(command);
  if (!command.ab.empty()) return ab_command(command);
  const std::string program_path = own_program_path();
  const Work work = plan_work(command, program_path);
  print_notes(work.notes);
  for (const std::string& text : work.left_out) print_warning(text);
  warn_of_confs(work.cells);
  if (command.dry_run) print_cells(work);
  const ExitCode code = command.dry_run ? ExitCode::Pass : run_work(command, work, program_path);
  return code == ExitCode::Pass && !work.left_out.empty() ? ExitCode::CellsIncomplete : code;
}

}  // namespace allocmark
