// See run_request.h.
#include "harness/tools/run/run_request.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include "base/bytes.h"
#include "base/error.h"
#include "base/input_file.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/plan.h"
#include "harness/core/run/suites.h"
#include "harness/shell/question/job_release.h"
#include "harness/shell/stray_word.h"
#include "harness/tools/run/run_soak.h"
#include "results/columns/columns.h"
#include "workloads/scenario.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

template <typename T>
std::vector<T> first_given(const std::vector<T>& given, const std::vector<T>& otherwise) {
  return given.empty() ? otherwise : given;
}

// The suite's own config strings for allocators that were not chosen have nothing to do.
std::vector<std::string> confs_for(const std::vector<std::string>& confs,
                                   const std::vector<std::string>& allocators) {
  std::vector<std::string> result;
  for (const std::string& conf : confs) {
    const std::string_view name = split_scope(conf).allocator;
    if (name.empty() || std::ranges::find(allocators, name) != allocators.end()) {
      result.push_back(conf);
    }
  }
  return result;
}

// All that can run by their name alone.
std::vector<std::string> all_names(const std::vector<PlanAllocator>& known) {
  std::vector<std::string> names;
  for (const PlanAllocator& allocator : known) {
    // Releases of an allocator are run where they are named.
    const bool is_release = allocator.name.find('@') != std::string::npos;
    if (allocator.argument_keys.empty() && !is_release) names.push_back(allocator.name);
  }
  return names;
}

struct Opened {
  PlanWorkload workload;
  std::string pytorch;  // what its recording says
};

constexpr std::string_view kFileWorkload = "file:";

// Files are read to their end. Scenarios are read here, and cells are told what they say.
Opened open_workload_once(const std::string& text) {
  refuse_pipes(text);
  const std::unique_ptr<EventSource> source = open_workload_with_kernels(text, 1);
  while (text.starts_with(kFileWorkload) && !source->next().empty()) {
  }
  return {.workload = {.text = text,
                       .recorded = is_recording(source->header().generator),
                       .definition = define_workload_with_kernels(text),
                       .files = hash_trace_files(text)},
          .pytorch = source->header().pytorch};
}

// Opens every workload once, so that an unknown name or a file that cannot be read is found before
// anything runs. A file whose content is refused is left out where another workload can run.
std::vector<Opened> open_workloads(const std::vector<std::string>& names,
                                   const std::string& kernels, std::vector<ErrorText>* left_out) {
  refuse_split_workloads(names);
  std::vector<Opened> opened;
  for (const std::string& name : names) {
    const std::string text = with_kernels(name, kernels);
    try {
      opened.push_back(open_workload_once(text));
    } catch (const UsageError& error) {
      if (!text.starts_with(kFileWorkload)) throw;
      left_out->push_back(error.text());
    }
  }
  if (opened.empty() && !left_out->empty()) throw UsageError(left_out->front());
  return opened;
}

// Adds the workloads; `caching` without a release is that of each job.
void add_workloads(const std::vector<Opened>& opened, RunRequest* request) {
  const std::vector<std::string>& allocators = request->plan.allocators;
  const bool asks = std::ranges::find(allocators, kBaselineAllocator) != allocators.end();
  std::vector<JobOfRelease> jobs;
  for (const Opened& one : opened) {
    for (const std::string& note : notes_of_workload(one.workload.text)) {
      request->notes.push_back(fmt::format("{}: {}", one.workload.text, note));
    }
    request->plan.workloads.push_back(one.workload);
    if (!asks) continue;
    JobRelease release = find_release({.workload = one.workload.text, .recorded = one.pytorch});
    if (release.is_known) request->plan.workloads.back().caching = allocator_of(release);
    jobs.push_back({.workload = one.workload.text, .release = std::move(release)});
  }
  for (std::string& note : release_notes(jobs)) request->notes.push_back(std::move(note));
}

// What is run where the command line does not say: the suite's axes, then the scenario's.
Suite preset_of(const RunCommand& command, const std::vector<PlanAllocator>& known) {
  Suite preset{.name = "run",
               .summary = "",
               .workloads = {},
               .allocators = all_names(known),
               .confs = {},
               .capacities = {"unlimited"},
               .pass_count = 3};
  const bool names_workload = !command.workloads.empty() || !command.scenario.empty();
  if (!command.suite.empty() || !names_workload) {
    preset = find_suite(command.suite.empty() ? "default" : command.suite);
  }
  return preset;
}

void check_simulated(const CellKey& key, const std::vector<PlanAllocator>& known) {
  const auto allocator = std::ranges::find(known, key.allocator, &PlanAllocator::name);
  if (allocator == known.end() || !allocator->check_simulated) return;
  if (const std::optional<ErrorText> error = allocator->check_simulated(key.conf_text())) {
    throw UsageError(*error);
  }
}

}  // namespace

RunRequest join_with_preset(const RunCommand& command, const std::vector<PlanAllocator>& known) {
  Suite preset = preset_of(command, known);
  RunRequest request;
  request.plan.on_oom = "skip";
  request.plan.seeds = {1};
  if (!command.scenario.empty()) {
    const Scenario scenario = load_scenario(command.scenario);
    preset.workloads = {scenario.name};
    preset.capacities = first_given(scenario.capacities, preset.capacities);
    preset.confs = first_given(scenario.confs, preset.confs);
    request.plan.seeds = scenario.seeds;
    request.plan.on_oom = scenario.on_oom;
  }
  const std::vector<std::string> allocators = first_given(command.allocators, preset.allocators);
  request.title = command.scenario.empty() ? std::string(preset.name) : command.scenario;
  request.pass_count = command.pass_count.value_or(preset.pass_count);
  request.plan.allocators = allocators;
  add_workloads(open_workloads(first_given(command.workloads, preset.workloads), command.kernels,
                               &request.left_out),
                &request);
  request.plan.confs = command.confs.empty() ? confs_for(preset.confs, allocators) : command.confs;
  request.plan.capacities = first_given(command.capacities, preset.capacities);
  request.plan.device = command.device;
  if (!command.seeds.empty()) request.plan.seeds = parse_seeds(command.seeds);
  if (!command.on_oom.empty()) request.plan.on_oom = command.on_oom;
  return request;
}

void check_usage(const RunCommand& command) {
  if (!command.untimed.empty() && command.ab.empty()) {
    throw UsageError({.what = "cells are untimed only beside others",
                      .where = "--untimed",
                      .wanted = "--ab A B",
                      .next = "name them by --workload"});
  }
  if (!command.soak_for.empty()) check_soak_usage(command);
  check_device(command.device);
  if (command.resume && command.out.empty()) {
    throw UsageError({.what = "there is no folder to resume",
                      .where = "--resume",
                      .wanted = "--out DIR, the folder of the run",
                      .next = "allocmark run --resume --out DIR"});
  }
  if (const std::string reason = unfit_build_reason(); !reason.empty() && !command.allow_debug) {
    throw UsageError({.what = reason,
                      .where = version_text(),
                      .wanted = "an optimised build",
                      .next = "build with 'cmake --preset release', or add --allow-debug"});
  }
}

std::string default_folder(const std::string& title) {
  return fmt::format("allocmark-results/{:%Y%m%dT%H%M%SZ}-{}", fmt::gmtime(std::time(nullptr)),
                     title);
}

void check_fits_device(const std::vector<CellKey>& cells, const Environment& facts,
                       const std::vector<PlanAllocator>& known) {
  for (const CellKey& key : cells) {
    if (is_simulated(facts.device)) check_simulated(key, known);
    const Capacity capacity = parse_capacity(key.capacity);
    if (!capacity.size_bytes || facts.gpu_memory_bytes == 0 ||
        *capacity.size_bytes <= facts.gpu_memory_bytes) {
      continue;
    }
    throw UsageError({.what = "the capacity is larger than the device's memory",
                      .where = "--capacity",
                      .wanted = fmt::format("at most {}, all that {} has",
                                            format_bytes(facts.gpu_memory_bytes), facts.gpu_name),
                      .got = key.capacity,
                      .next = "choose a smaller capacity, or unlimited"});
  }
}

// Results beyond what a report reads would be work for nothing. 100,000 cells of three passes took
// 1.85 GiB, 19 KiB a cell.
void check_reportable(const std::vector<CellKey>& cells, const RunManifest& manifest) {
  constexpr std::uint64_t kCellBytes = 10'000;
  constexpr std::uint64_t kPassBytes = 3'000;
  const std::uint64_t cell_bytes = kCellBytes + kPassBytes * manifest.pass_count;
  const std::uint64_t count_max = kResultsInput.size_bytes_max / cell_bytes;
  if (cells.size() <= count_max) return;
  throw UsageError(
      {.what = "this run has more cells than a report can be made of",
       .where = "the plan: workloads x allocators x config strings x capacities x seeds",
       .wanted = fmt::format("at most {} cells of {} passes: {} of results", count_max,
                             manifest.pass_count, format_bytes(kResultsInput.size_bytes_max)),
       .got = fmt::format("{} cells", cells.size()),
       .next = fmt::format("divide it: --shard 1/{0} to {0}/{0}, each with an --out DIR of its own",
                           (cells.size() + count_max - 1) / count_max)});
}

void require_gpus(const RunCommand& command, const DeviceChoice& device,
                  const std::string& program_path) {
  const auto refuse = [&](std::string wanted, std::string got, std::string next) {
    throw UsageError({.what = "cells cannot be dealt out to these GPUs",
                      .where = fmt::format("--gpus {}", command.gpu_count),
                      .wanted = std::move(wanted),
                      .got = std::move(got),
                      .next = std::move(next)});
  };
  if (command.job_count) {
    refuse("--gpus alone: each GPU runs one cell at a time", "--jobs", "leave one of them out");
  }
  if (device.device != "cuda:0") {
    refuse("the machine's GPUs from 0 on: --device auto or cuda:0", device.device,
           "simulated devices run several cells with --jobs");
  }
  for (std::uint32_t i = 1; i < command.gpu_count; ++i) {
    const DeviceChoice other = choose_device(fmt::format("cuda:{}", i), program_path);
    if (other.facts.gpu_name != device.facts.gpu_name) {
      refuse("GPUs of one model",
             fmt::format("{} and {}", device.facts.gpu_name, other.facts.gpu_name),
             "hide GPUs with CUDA_VISIBLE_DEVICES");
    }
  }
}

RunCellsOptions cells_options(const RunCommand& command, const std::string& device,
                              const std::string& program_path, const InterruptGuard* interrupt) {
  const std::uint32_t job_count = command.job_count.value_or(default_job_count(device));
  return {.program_path = program_path,
          .job_count = command.gpu_count > 0 ? command.gpu_count : job_count,
          .gpu_count = command.gpu_count,
          .interrupt = interrupt};
}

}  // namespace allocmark
