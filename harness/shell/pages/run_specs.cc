// See run_specs.h.
#include "harness/shell/pages/run_specs.h"

#include <cctype>
#include <filesystem>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include "base/error.h"
#include "harness/core/run/device_sharing.h"
#include "harness/core/run/rounds.h"

namespace allocmark {
namespace {

// What names the cell, as far as a file name can hold it, and its id.
std::string placements_name(const CellKey& key) {
  std::string name = fmt::format("{}_{}_{}_{}", key.allocator,
                                 key.conf.empty() ? "unset" : key.conf, key.workload, key.capacity);
  for (char& letter : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.';
    if (!plain) letter = '_';
  }
  constexpr std::size_t kLengthMax = 150;
  return fmt::format("{}_{}.txt", name.substr(0, kLengthMax), key.id());
}

}  // namespace

std::vector<CellSpec> remaining_specs(const std::vector<CellKey>& cells,
                                      const std::vector<CellResult>& kept,
                                      const RunManifest& manifest,
                                      const std::string& placements_folder,
                                      const SpecSettings& settings) {
  std::set<std::string> kept_ids;
  for (const CellResult& cell : kept) kept_ids.insert(cell.key.id());
  std::vector<CellSpec> specs;
  for (const CellKey& key : cells) {
    if (!kept_ids.contains(key.id())) {
      CellSpec spec;
      spec.key = key;
      spec.pass_count = manifest.pass_count;
      spec.width_max = manifest.width_max;
      spec.pass_count_max = manifest.pass_count_max;
      spec.verify = manifest.verify;
      spec.timeout_s = manifest.timeout_s;
      // Cells that run side by side would all choose the same one.
      spec.quiet_cpu = settings.job_count == 1;
      spec.shares_device =
          settings.job_count > settings.gpu_count && shares_device(key, settings.job_count);
      spec.in_rounds = manifest.in_rounds;
      spec.host_target = settings.host_target;
      if (!placements_folder.empty())
        spec.placements_path = placements_folder + "/" + placements_name(key);
      specs.push_back(spec);
    }
  }
  return specs;
}

std::string timeline_path(const std::string& folder, const CellKey& key) {
  return (std::filesystem::absolute(folder) / "timelines" / (key.id() + ".json")).string();
}

void add_timelines(const std::string& folder, std::vector<CellSpec>* specs) {
  const std::filesystem::path timelines = std::filesystem::absolute(folder) / "timelines";
  std::error_code error;
  std::filesystem::create_directories(timelines, error);
  if (error) {
    throw FileError({.what = "cannot make the folder for timelines",
                     .where = timelines.string(),
                     .wanted = "a folder that can be written",
                     .got = error.message(),
                     .next = "leave --timeline out, or choose another --out"});
  }
  for (CellSpec& spec : *specs) spec.timeline_path = timeline_path(folder, spec.key);
}

bool run_specs(const std::vector<CellSpec>& specs, bool spread, const RunCellsOptions& options,
               const RunSinks& sinks) {
  const auto on_result = [&](CellResult result) {
    state_repeat(result, sinks.basis);
    sinks.results.append(result);
    if (result.host_reference_ns > 0) sinks.host_references_ns.push_back(result.host_reference_ns);
    sinks.progress.cell_done(result);
  };
  if (!spread) return run_cells(specs, options, on_result);
  RoundsOptions rounds{.program_path = options.program_path,
                       .job_count = options.job_count,
                       .interrupt = options.interrupt};
  bound_waiting(&rounds);
  std::uint64_t pass_count = 0;
  for (const CellSpec& spec : specs) pass_count += spec.pass_count + kUntimedPassCount;
  sinks.progress.expect_passes(pass_count);
  return run_in_rounds(
      specs, rounds,
      {.on_result = on_result,
       .on_part =
           [&](CellResult part) {
             state_repeat(part, sinks.basis);
             part.warnings.push_back(
                 fmt::format("the run ended before {} of its timed passes", part.passes_to_come));
             sinks.results.append(part);
           },
       .on_passes = [&](std::uint32_t count) { sinks.progress.passes_done(count); }});
}

}  // namespace allocmark
