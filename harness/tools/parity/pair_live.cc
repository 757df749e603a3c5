// 'allocmark parity random --live --host' and '--bfc tf2.21': random operations on our cache of
// pinned memory and on PyTorch's own, or on bfc::Heap and TensorFlow's or XLA's own allocator, and
// the first that they answer otherwise. Each program runs in a process of its own: PyTorch has one
// such cache per process, and the other may end it. Checks; times nothing.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include "allocators/plugins/bfc_library.h"
#include "allocators/plugins/torch_host.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/job/job.h"
#include "harness/tools/parity/bfc_program.h"
#include "harness/tools/parity/host_program.h"
#include "harness/tools/parity/parity_input.h"

namespace allocmark {
namespace {

struct PairRequest {
  std::string plugin;  // of the original: its version, as TorchHostCache has it, or its path
  PairProgram program;
};
using PairJob = Job<PairRequest, PairResult>;

constexpr PairJob kHostLive{
    .name = "host_live",
    .what = "the live comparison",
    .run =
        [](const PairRequest& request, const Tell<PairResult>& tell) {
          // PyTorch's cache lives as long as the process, and so does its machine.
          static host_caching::CountingDriver driver(host_room_bytes(request.program));
          static TorchHostCache torch(request.plugin, host_conf(request.program), driver);
          tell(compare_host_caches(request.program, torch, driver));
        },
    .opens_device = false};

constexpr PairJob kBfcLive{
    .name = "bfc_live",
    .what = "the live comparison",
    .run = [](const PairRequest& request,
              const Tell<PairResult>& tell) { tell(compare_bfc(request.program, request.plugin)); },
    .opens_device = false};

struct PairTotals {
  std::uint64_t programs = 0, ends = 0, differences = 0, operations = 0;
  std::map<std::string, std::uint64_t> counts{};

  void add(const PairResult& result) {
    ++programs;
    ends += result.has_ended ? 1 : 0;
    differences += result.operation.empty() ? 0 : 1;
    operations += result.operation_count;
    for (const auto& [name, count] : result.counts) counts[name] += count;
  }
};

struct Pair {
  const PairJob& job;
  std::string_view original;  // as it is called before what it answered
  std::string plugin, rules;
  bool may_end = false;  // then a program counts for as much as it did
};

PairTotals compare_programs(const ParityCommand& command, const Pair& pair) {
  constexpr std::uint64_t kOperationsPerProgram = 20'000;
  constexpr double kProgramSecondsMax = 600;
  PairTotals totals;
  std::uint64_t left = command.operation_count;
  for (std::uint64_t seed = command.seed; left > 0; ++seed) {
    const std::uint64_t count = std::min(left, kOperationsPerProgram);
    const PairResult result =
        ask_job(pair.job,
                {.plugin = pair.plugin,
                 .program = {.seed = seed, .operation_count = count, .rules = pair.rules}},
                {.device = "sim:h200",
                 // TensorFlow's warnings of every collection and refusal would go to the terminal.
                 .environment = {{"TF_CPP_MIN_LOG_LEVEL", "3"}},
                 .timeout_s = kProgramSecondsMax});
    left -= pair.may_end ? result.operation_count : count;
    totals.add(result);
    if (result.operation.empty()) continue;
    fmt::print("seed {} ({}), operation {} ({}) differs\n  {}: {}\n  {:<{}} {}\n", seed,
               result.setting, result.operation_count, result.operation, pair.original,
               result.theirs, "ours:", pair.original.size() + 1, result.ours);
    std::fflush(stdout);
  }
  return totals;
}

void require_random(const ParityCommand& command, const char* what, const std::string& option) {
  if (command.trace == "random") return;
  throw UsageError({.what = what,
                    .where = "allocmark parity --live " + option.substr(0, option.find(' ')),
                    .wanted = "random",
                    .got = command.trace,
                    .next = "allocmark parity random --live " + option});
}

ExitCode exit_code_of(const PairTotals& totals) {
  return totals.differences > 0 ? ExitCode::Regression : ExitCode::Pass;
}

}  // namespace

ExitCode host_live_command(const ParityCommand& command) {
  require_random(command, "pinned memory is compared by random operations alone", "--host");
  const bool own = command.pytorch.empty();
  const BackendEntry& entry = find_backend(own ? "torch" : "torch@" + command.pytorch);
  if (const std::string reason = entry.unavailable_reason(); !reason.empty()) {
    fmt::print("skipped: {}\n", reason);
    return ExitCode::NotReady;
  }
  PairTotals totals = compare_programs(
      command,
      {.job = kHostLive, .original = "PyTorch", .plugin = command.pytorch, .rules = entry.release});
  fmt::print(
      "PyTorch {}: {} programs, {} operations on pinned memory: {} blocks ({} reused), {} "
      "refusals, {} captures, {} changes of settings and {} counter values compared, {} "
      "differences\n",
      entry.release, totals.programs, totals.operations, totals.counts["blocks"],
      totals.counts["reused"], totals.counts["refusals"], totals.counts["captures"],
      totals.counts["changes"], totals.counts["counters"], totals.differences);
  return exit_code_of(totals);
}

ExitCode bfc_live_command(const ParityCommand& command) {
  require_random(command, "this allocator is compared by random operations alone",
                 "--bfc " + command.bfc);
  const std::string plugin_path = bfc_plugin_path(command.bfc);
  if (plugin_path.empty()) {
    fmt::print("skipped: {} is not here; fetch it: scripts/build/fetch_tensorflow.sh {}\n",
               command.bfc, command.bfc);
    return ExitCode::NotReady;
  }
  PairTotals totals = compare_programs(command, {.job = kBfcLive,
                                                 .original = "original",
                                                 .plugin = plugin_path,
                                                 .rules = command.bfc,
                                                 .may_end = true});
  fmt::print(
      "{}: {} programs, {} operations: {} blocks, {} refusals, {} regions ({} collected), {} "
      "counter values and {} chunks of memory maps compared, {} differences\n",
      command.bfc, totals.programs, totals.operations, totals.counts["blocks"],
      totals.counts["refusals"], totals.counts["regions"], totals.counts["collected"],
      totals.counts["counters"], totals.counts["chunks"], totals.differences);
  if (totals.ends > 0) {
    fmt::print(
        "{} programs ended early, where the original ends the process or does not come back, as "
        "ours said it would\n",
        totals.ends);
  }
  return exit_code_of(totals);
}

extern const JobEntry kHostLiveJob;
constinit const JobEntry kHostLiveJob = job_entry<kHostLive>();
extern const JobEntry kBfcLiveJob;
constinit const JobEntry kBfcLiveJob = job_entry<kBfcLive>();

}  // namespace allocmark
