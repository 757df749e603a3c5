// 'allocmark parity random --live --bfc tf2.21': random operations on bfc::Heap and on TensorFlow's
// or XLA's own allocator, and the first that they answer otherwise. Each program runs in a process
// of its own, which the original may end. Checks; times nothing.
#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include "allocators/plugins/bfc_library.h"
#include "base/error.h"
#include "harness/job/job.h"
#include "harness/tools/parity/bfc_program.h"
#include "harness/tools/parity/parity_input.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kBfcOperationsPerProgram = 20'000;
constexpr double kBfcSecondsMax = 600;

struct BfcLiveRequest {
  std::string plugin_path;
  BfcProgram program;
};

void run_bfc_program(const BfcLiveRequest& request, const Tell<BfcLiveResult>& tell) {
  tell(compare_bfc(request.program, request.plugin_path));
}

constexpr Job<BfcLiveRequest, BfcLiveResult> kBfcLive{.name = "bfc_live",
                                                      .what = "the live comparison",
                                                      .run = run_bfc_program,
                                                      .opens_device = false};

struct BfcTotals {
  std::uint64_t programs = 0, ends = 0, differences = 0;
  BfcLiveResult sum{};

  void add(const BfcLiveResult& result) {
    ++programs;
    ends += result.has_ended ? 1 : 0;
    differences += result.operation.empty() ? 0 : 1;
    sum.operation_count += result.operation_count;
    sum.block_count += result.block_count;
    sum.refusal_count += result.refusal_count;
    sum.region_count += result.region_count;
    sum.collected_count += result.collected_count;
    sum.counter_count += result.counter_count;
    sum.chunk_count += result.chunk_count;
  }
};

void print_totals(const BfcTotals& totals, const std::string& rules) {
  fmt::print(
      "{}: {} programs, {} operations: {} blocks, {} refusals, {} regions ({} collected), {} "
      "counter values and {} chunks of memory maps compared, {} differences\n",
      rules, totals.programs, totals.sum.operation_count, totals.sum.block_count,
      totals.sum.refusal_count, totals.sum.region_count, totals.sum.collected_count,
      totals.sum.counter_count, totals.sum.chunk_count, totals.differences);
  if (totals.ends > 0) {
    fmt::print(
        "{} programs ended early, where the original ends the process or does not come back, as "
        "ours said it would\n",
        totals.ends);
  }
}

BfcLiveResult compare_program(const BfcLiveRequest& request) {
  return ask_job(kBfcLive, request,
                 {.device = "sim:h200",
                  // Warnings of every collection and refusal would go to the terminal.
                  .environment = {{"TF_CPP_MIN_LOG_LEVEL", "3"}},
                  .timeout_s = kBfcSecondsMax});
}

}  // namespace

ExitCode bfc_live_command(const ParityCommand& command) {
  if (command.trace != "random") {
    throw UsageError({.what = "this allocator is compared by random operations alone",
                      .where = "allocmark parity --live --bfc",
                      .wanted = "random",
                      .got = command.trace,
                      .next = "allocmark parity random --live --bfc " + command.bfc});
  }
  const std::string plugin_path = bfc_plugin_path(command.bfc);
  if (plugin_path.empty()) {
    fmt::print("skipped: {} is not here; fetch it: scripts/build/fetch_tensorflow.sh {}\n",
               command.bfc, command.bfc);
    return ExitCode::NotReady;
  }
  BfcTotals totals;
  for (std::uint64_t seed = command.seed; totals.sum.operation_count < command.operation_count;
       ++seed) {
    const std::uint64_t count =
        std::min(command.operation_count - totals.sum.operation_count, kBfcOperationsPerProgram);
    const BfcLiveResult result = compare_program(
        {.plugin_path = plugin_path,
         .program = {.seed = seed, .operation_count = count, .rules = command.bfc}});
    totals.add(result);
    if (result.operation.empty()) continue;
    fmt::print("seed {} ({}), operation {} ({}) differs\n  original: {}\n  ours:     {}\n", seed,
               result.options, result.operation_count, result.operation, result.theirs,
               result.ours);
    std::fflush(stdout);
  }
  print_totals(totals, command.bfc);
  return totals.differences > 0 ? ExitCode::Regression : ExitCode::Pass;
}

extern const JobEntry kBfcLiveJob;
constinit const JobEntry kBfcLiveJob = job_entry<kBfcLive>();

}  // namespace allocmark
