// 'allocmark export WORKLOAD FILE': what PyTorch's allocator does with a workload, for other tools.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "allocators/caching/config.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/shell/options.h"
#include "harness/shell/output_path.h"
#include "harness/shell/question/job_options.h"
#include "harness/shell/question/job_release.h"
#include "harness/shell/registry.h"
#include "harness/tools/export/caching_recorder.h"
#include "harness/tools/export/writers.h"
#include "workloads/import/snapshot_writer.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

struct ExportCommand {
  std::string workload;
  std::string output;
  std::string conf = "unset";
  std::string memory = "unlimited";
  std::string pytorch;  // its release; empty: the recording's own, else the newest
  std::uint64_t seed = 1;
  bool force = false;
};

void add_export(CLI::App* app, ExportCommand* command) {
  add_value(app, "workload", command->workload, "W", "A workload as 'run' takes it, or a recording")
      ->required();
  add_value(app, "output", command->output, "FILE",
            "File to write. Its ending decides: .pickle (PyTorch's memory snapshot, for "
            "memory_viz), .json (Perfetto), .rmm.csv (RMM's log: the requests alone), .csv "
            "(minimalloc); .gz or .zst after it packs")
      ->required();
  add_default(app, "-c,--conf", command->conf, "CONF",
              "Config string of 'caching', which serves the workload");
  add_default(app, "--memory", command->memory, "SIZE",
              "Memory of the card: a size, or 'unlimited'");
  add_value(app, "--pytorch", command->pytorch, "V",
            "The release of PyTorch that serves it, as 2.10 [the recording's own, else the "
            "newest]");
  add_default(app, "--seed", command->seed, "N", "Seed of generators");
  add_force(app, &command->force);
}

using ExportWriter = void (*)(const MemorySnapshot&, const std::string&);

bool ends_with(std::string_view path, std::string_view ending) {
  for (const std::string_view packing : {"", ".gz", ".zst"}) {
    if (path.ends_with(fmt::format("{}{}", ending, packing))) return true;
  }
  return false;
}

ExportWriter writer_for(const std::string& path) {
  if (ends_with(path, ".pickle")) return write_memory_snapshot;
  if (ends_with(path, ".json")) return write_perfetto;
  if (ends_with(path, ".csv")) return write_minimalloc;
  throw UsageError({.what = "this kind of file cannot be written",
                    .where = path,
                    .wanted = "a name that ends with .pickle, .json or .csv, or one of these and "
                              ".gz or .zst",
                    .next = "choose one of these endings"});
}

// No allocator serves the requests here.
ExitCode export_rmm_log(const ExportCommand& command, EventSource& source) {
  if (command.conf != "unset" || command.memory != "unlimited" || !command.pytorch.empty()) {
    throw UsageError({.what = "an RMM log holds requests, which depend on no setting",
                      .where = command.output,
                      .wanted = "no --conf, --memory or --pytorch",
                      .next = "leave them out"});
  }
  const RmmLogCounts counts = write_rmm_log(source, command.output);
  fmt::print("{}: {} rows; {} events left out, for which RMM's log has no word\n", command.output,
             counts.row_count, counts.left_out_count);
  return ExitCode::Pass;
}

ExitCode run_export(const ExportCommand& command) {
  const ExportWriter write = writer_for(command.output);
  check_output_file(command.output, command.force, "allocmark export");
  const std::unique_ptr<EventSource> source = open_path_or_workload(command.workload, command.seed);
  if (ends_with(command.output, ".rmm.csv")) return export_rmm_log(command, *source);
  const JobRelease release = find_release({.given = command.pytorch,
                                           .workload = workload_of(command.workload),
                                           .recorded = source->header().pytorch});
  const std::string conf = read_conf(find_backend(allocator_of(release)), command.conf);
  const caching::StrictConfig config = caching::parse_strict(conf, *release.rules);
  if (config.settings.backend != caching::PoolBackend::Native) {
    throw UsageError({.what = "PyTorch keeps no history with backend:cudaMallocAsync",
                      .where = "--conf",
                      .wanted = "the native backend",
                      .got = conf});
  }
  RecordRequest request{.settings = config.settings, .conf = conf};
  if (command.memory != "unlimited") {
    const std::optional<std::uint64_t> size_bytes = parse_bytes(command.memory);
    if (!size_bytes) {
      throw UsageError({.what = "not a size",
                        .where = "--memory",
                        .wanted = "a number with its unit, such as 24GiB, or 'unlimited'",
                        .got = explain_bytes(command.memory)});
    }
    request.capacity_bytes = *size_bytes;
  }
  const MemorySnapshot snapshot = record_on_caching(*source, request);
  write(snapshot, command.output);
  fmt::print("{}: {} entries, {} segments at the end; PyTorch {}'s allocator, {}\n", command.output,
             snapshot.entry_count(0), snapshot.segments.size(), release.rules->name(),
             release.basis);
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kExportCommand;
constinit const CommandEntry kExportCommand{
    "export", "Write a workload's memory for memory_viz, Perfetto, minimalloc or RMM",
    [](CLI::App* app) { return bind_command(app, add_export, run_export); }};

}  // namespace allocmark
