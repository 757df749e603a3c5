// See merge_runs.h.
#include "harness/tools/qualify/fleet/merge_runs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/error.h"
#include "results/columns/text.h"
#include "results/json.h"

namespace allocmark::fleet {
namespace {

std::string cell_text(const CellKey& key) {
  return printable(fmt::format("{} on {}{}{} at {}, seed {}", key.workload, key.allocator,
                               key.conf.empty() ? "" : "=", key.conf, key.capacity, key.seed));
}

// What one machine may differ from another in, where several are allowed.
bool tells_machines_apart(const std::string& difference) {
  return difference.starts_with("hostname_hash:") || difference.starts_with("gpu_uuid_hash:");
}

std::set<std::string> ids_of(const RunManifest& manifest) {
  std::set<std::string> ids;
  for (const CellKey& key : manifest.cells) ids.insert(key.id());
  return ids;
}

std::vector<std::string> plan_differences(const RunManifest& a, const RunManifest& b) {
  std::vector<std::string> differences;
  const auto compare = [&](const char* name, const auto& was, const auto& is) {
    if (was != is) differences.push_back(fmt::format("{}: {} and {}", name, was, is));
  };
  compare("suite", a.title, b.title);
  compare("passes", a.pass_count, b.pass_count);
  compare("until width", a.width_max, b.width_max);
  compare("most passes", a.pass_count_max, b.pass_count_max);
  compare("verify", to_string(a.verify), to_string(b.verify));
  compare("timeout in s", a.timeout_s, b.timeout_s);
  compare("the program's hash", a.program.hash, b.program.hash);
  std::map<std::string, std::string> files;
  for (const FileMark& mark : a.files) files[mark.path] = mark.hash;
  for (const FileMark& mark : b.files) {
    const auto found = files.find(mark.path);
    if (found != files.end()) compare(mark.path.c_str(), found->second, mark.hash);
  }
  const std::set<std::string> ids_a = ids_of(a);
  const std::set<std::string> ids_b = ids_of(b);
  if (ids_a != ids_b) {
    const auto foreign =
        std::ranges::count_if(ids_b, [&](const std::string& id) { return !ids_a.contains(id); });
    differences.push_back(fmt::format("cells of the plan: {} and {}, of which {} are others",
                                      ids_a.size(), ids_b.size(), foreign));
  }
  return differences;
}

void refuse_foreign(const Shard& first, const Shard& other, bool any_machine) {
  std::vector<std::string> differences = plan_differences(first.manifest, other.manifest);
  for (const std::string& difference :
       environment_differences(first.file.environment, other.file.environment)) {
    if (!any_machine || !tells_machines_apart(difference)) differences.push_back(difference);
  }
  if (differences.empty()) return;
  const bool only_machines = std::ranges::all_of(differences, tells_machines_apart);
  throw UsageError(
      {.what = "these folders hold no shards of one run",
       .where = first.path + " and " + other.path,
       .wanted = "the same plan, program and machine",
       .got = fmt::format("{}", fmt::join(differences, "; ")),
       .next = only_machines ? "where both machines are alike and times may be mixed: --any-machine"
                             : "merge the shards of one run; see: allocmark run --help, --shard"});
}

// Numbers that are the same wherever a cell runs.
bool same_exact_numbers(const CellResult& a, const CellResult& b) {
  return a.status == b.status && a.trace_hash == b.trace_hash &&
         a.placement_hash == b.placement_hash && a.oom_count == b.oom_count &&
         a.reserved_bytes_peak == b.reserved_bytes_peak;
}

struct Found {
  const Shard* shard = nullptr;
  const CellResult* cell = nullptr;
};

// The finished one of a cell's results; the first where several are. Says where it is twice.
Found choose(const std::vector<Found>& found, MergedRun& run) {
  Found chosen = found.front();
  for (const Found& other : found) {
    if (!is_finished(other.cell->status)) continue;
    if (!is_finished(chosen.cell->status)) {
      chosen = other;
      continue;
    }
    if (other.cell == chosen.cell) continue;
    const bool same = same_exact_numbers(*chosen.cell, *other.cell);
    (same ? run.duplicates : run.conflicts)
        .push_back(fmt::format("{}: in {} and in {}", cell_text(chosen.cell->key),
                               printable(chosen.shard->path), printable(other.shard->path)));
  }
  return chosen;
}

void note_machines(const std::vector<Shard>& shards, Environment& environment) {
  std::set<std::string> machines;
  std::set<std::string> warnings(environment.warnings.begin(), environment.warnings.end());
  for (const Shard& shard : shards) {
    machines.insert(shard.file.environment.hostname_hash);
    for (const std::string& warning : shard.file.environment.warnings) {
      if (warnings.insert(warning).second) environment.warnings.push_back(warning);
    }
  }
  if (machines.size() > 1) {
    environment.warnings.push_back(
        fmt::format("merged from runs on {} machines: times of two cells may be of two of them",
                    machines.size()));
  }
}

std::string list_text(const char* heading, const std::vector<std::string>& names) {
  constexpr std::size_t kShownMax = 50;
  if (names.empty()) return "";
  std::string text = fmt::format("{}: {}\n", heading, names.size());
  for (std::size_t i = 0; i < std::min(names.size(), kShownMax); ++i)
    text += "  " + names[i] + "\n";
  if (names.size() > kShownMax) {
    text += fmt::format("  and {} more\n", names.size() - kShownMax);
  }
  return text;
}

}  // namespace

Shard read_shard(const std::string& folder) {
  return {.path = folder,
          .manifest = read_manifest(folder),
          .file = read_run_file(results_path(folder))};
}

MergedRun merge_runs(const std::vector<Shard>& shards, bool any_machine) {
  std::map<std::string, std::vector<Found>> results;
  for (const Shard& shard : shards) {
    refuse_foreign(shards.front(), shard, any_machine);
    const std::set<std::string> planned = ids_of(shard.manifest);
    for (const CellResult& cell : shard.file.cells) {
      if (!planned.contains(cell.key.id())) {
        throw UsageError({.what = "this folder has a result of a cell that its plan lacks",
                          .where = shard.path,
                          .got = cell_text(cell.key),
                          .next = "it was changed by hand; run that shard again"});
      }
      results[cell.key.id()].push_back({&shard, &cell});
    }
  }
  MergedRun run{.manifest = shards.front().manifest,
                .environment = shards.front().file.environment};
  run.manifest.timelines = false;  // they stay with the shards
  note_machines(shards, run.environment);
  for (const CellKey& key : run.manifest.cells) {
    const auto found = results.find(key.id());
    if (found == results.end()) {
      run.missing.push_back(cell_text(key));
      continue;
    }
    const Found chosen = choose(found->second, run);
    run.cells.push_back(*chosen.cell);
    if (!is_finished(chosen.cell->status)) {
      run.unfinished.push_back(fmt::format("{}: {}, {}", cell_text(key),
                                           to_string(chosen.cell->status),
                                           printable(chosen.cell->reason)));
    }
  }
  return run;
}

void write_run(const std::string& folder, const MergedRun& run) {
  RunFolder out = RunFolder::create(folder, run.manifest, run.environment);
  for (const CellResult& cell : run.cells) out.append(cell);
}

std::string merge_text(const MergedRun& run, std::size_t shard_count) {
  return list_text("cells that no shard has", run.missing) +
         list_text("cells without a result", run.unfinished) +
         list_text("cells in two shards whose exact numbers differ", run.conflicts) +
         list_text("cells in two shards, counted once", run.duplicates) +
         fmt::format("{} of {} cells, from {} shards\n", run.cells.size(),
                     run.manifest.cells.size(), shard_count);
}

}  // namespace allocmark::fleet
