// See parse_tools.h.
#include "harness/cli/parse_tools.h"

#include <CLI/App.hpp>
#include <cstdint>

#include "harness/cli/output_path.h"

namespace allocmark {

void add_profile(CLI::App* app, ProfileCommand* command) {
  app->add_option("-d,--device", command->device, "The device to measure: cuda:N, or sim:NAME")
      ->capture_default_str()
      ->type_name("D");
  app->add_option("-o,--out", command->out, "The profile's file, as used by --device sim:FILE")
      ->required()
      ->type_name("FILE");
  add_force(app, &command->force);
  app->add_option("--repeats", command->repeat_count,
                  "Times that every kind of call is measured, in turns with the others")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->capture_default_str()
      ->type_name("N");
}

void add_fidelity(CLI::App* app, FidelityCommand* command) {
  app->add_option("reference", command->reference,
                  "The recorded trace: the name of one that ships, or a file")
      ->type_name("REFERENCE");
  app->add_option("-w,--workload", command->workload,
                  "What is held against it [the workload that a shipped recording belongs to]")
      ->type_name("W");
  app->add_flag("--all", command->all, "Every recording that ships, one row each");
  app->add_option("-c,--conf", command->confs,
                  "Config strings of caching for the replays [unset, max_split_size_mb:128, "
                  "expandable_segments:True]")
      ->type_name("C");
  app->add_option("--seed", command->seed, "Seed of the workload")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--format", command->format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str()
      ->type_name("F");
  app->add_option("-o,--out", command->out,
                  "Also write plots (NAME.html) and numbers (fidelity.json) into this folder")
      ->type_name("DIR");
  app->footer(
      "\nEach distance is one number, defined in workloads/FIDELITY.md.\n"
      "\nExit codes: 0 compared, 1 with --all a recording misses the targets, 2 usage, 3 a replay "
      "failed.\n");
}

}  // namespace allocmark
