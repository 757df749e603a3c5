// Shards of one run, each a folder that `allocmark run --shard i/n` filled, put together again.
// Folders flow in; one run's plan, environment and results flow out, with a name for every cell
// that is there twice or not at all. What does not belong together is refused, never mixed.
#pragma once

#include <string>
#include <vector>

#include "harness/core/run/run_folder.h"
#include "results/run_file.h"
#include "results/schema.h"

namespace allocmark::fleet {

struct Shard {
  std::string path;
  RunManifest manifest;
  RunFile file;
};

// Throws FileError and UsageError where the folder holds no run.
[[nodiscard]] Shard read_shard(const std::string& folder);

struct MergedRun {
  RunManifest manifest;
  Environment environment;
  std::vector<CellResult> cells{};        // of the plan, in its order, where some shard has one
  std::vector<std::string> duplicates{};  // finished in two shards with the same exact numbers
  std::vector<std::string> conflicts{};   // the same, but exact numbers differ
  std::vector<std::string> missing{};     // no shard has it
  std::vector<std::string> unfinished{};  // crashed, timed out, failed or interrupted
};

// `any_machine`: shards may come from several machines whose processor, GPU model and driver are
// the same. Throws UsageError with every difference in plan, program or machine.
[[nodiscard]] MergedRun merge_runs(const std::vector<Shard>& shards, bool any_machine);

// Writes it as a run's folder. It must be new or empty.
void write_run(const std::string& folder, const MergedRun& run);

// What the command prints: how many cells, and every name of the lists.
[[nodiscard]] std::string merge_text(const MergedRun& run, std::size_t shard_count);

}  // namespace allocmark::fleet
