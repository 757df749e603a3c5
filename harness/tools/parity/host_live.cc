// 'allocmark parity random --live --host': random operations on our cache of pinned memory and on
// PyTorch's own, and the first that they answer otherwise. Each program runs in a process of its
// own, because PyTorch has one such cache per process. Checks; times nothing.
#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include "allocators/plugins/torch_host.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/job/job.h"
#include "harness/tools/parity/host_program.h"
#include "harness/tools/parity/parity_input.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kOperationsPerProgram = 20'000;
constexpr double kProgramSecondsMax = 600;

struct HostLiveRequest {
  std::string version;  // of the plugin, as TorchHostCache has it
  HostProgram program;
};

void run_host_program(const HostLiveRequest& request, const Tell<HostLiveResult>& tell) {
  // PyTorch's cache lives as long as the process, and so does its machine.
  static host_caching::CountingDriver driver(host_room_bytes(request.program));
  static TorchHostCache torch(request.version, host_conf(request.program), driver);
  OtherHostCache other = other_cache(torch, driver);
  other.change = [](const std::string& conf) { return torch.change(conf); };
  tell(compare_host_caches(request.program, other));
}

constexpr Job<HostLiveRequest, HostLiveResult> kHostLive{.name = "host_live",
                                                         .what = "the live comparison",
                                                         .run = run_host_program,
                                                         .opens_device = false};

struct HostTotals {
  std::uint64_t programs = 0, differences = 0;
  HostLiveResult sum{};

  void add(const HostLiveResult& result) {
    ++programs;
    differences += result.operation.empty() ? 0 : 1;
    sum.operation_count += result.operation_count;
    sum.block_count += result.block_count;
    sum.reused_count += result.reused_count;
    sum.refusal_count += result.refusal_count;
    sum.capture_count += result.capture_count;
    sum.change_count += result.change_count;
    sum.counter_count += result.counter_count;
  }
};

void print_totals(const HostTotals& totals, const std::string& pytorch) {
  fmt::print(
      "PyTorch {}: {} programs, {} operations on pinned memory: {} blocks ({} reused), {} "
      "refusals, {} captures, {} changes of settings and {} counter values compared, {} "
      "differences\n",
      pytorch, totals.programs, totals.sum.operation_count, totals.sum.block_count,
      totals.sum.reused_count, totals.sum.refusal_count, totals.sum.capture_count,
      totals.sum.change_count, totals.sum.counter_count, totals.differences);
}

}  // namespace

ExitCode host_live_command(const ParityCommand& command) {
  if (command.trace != "random")
    throw UsageError({.what = "pinned memory is compared by random operations alone",
                      .where = "allocmark parity --live --host",
                      .wanted = "random",
                      .got = command.trace,
                      .next = "allocmark parity random --live --host"});
  const bool own = command.pytorch.empty();
  const BackendEntry& entry = find_backend(own ? "torch" : "torch@" + command.pytorch);
  if (const std::string reason = entry.unavailable_reason(); !reason.empty()) {
    fmt::print("skipped: {}\n", reason);
    return ExitCode::NotReady;
  }
  HostTotals totals;
  std::uint64_t left = command.operation_count;
  for (std::uint64_t seed = command.seed; left > 0; ++seed) {
    const std::uint64_t count = std::min(left, kOperationsPerProgram);
    left -= count;
    const HostLiveResult result =
        ask_job(kHostLive,
                {.version = command.pytorch,
                 .program = {.seed = seed, .operation_count = count, .pytorch = entry.release}},
                {.device = "sim:h200", .timeout_s = kProgramSecondsMax});
    totals.add(result);
    if (result.operation.empty()) continue;
    fmt::print("seed {} (conf '{}'), operation {} ({}) differs\n  PyTorch: {}\n  ours:    {}\n",
               seed, result.conf, result.operation_count, result.operation, result.theirs,
               result.ours);
    std::fflush(stdout);
  }
  print_totals(totals, entry.release);
  return totals.differences > 0 ? ExitCode::Regression : ExitCode::Pass;
}

extern const JobEntry kHostLiveJob;
constinit const JobEntry kHostLiveJob = job_entry<kHostLive>();

}  // namespace allocmark
