// 'allocmark parity --live': the same operations on `caching` and on PyTorch's own allocator
// (`torch`), and where their answers differ. Checks; times nothing.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include "allocators/caching/release.h"
#include "allocators/conf/conf.h"
#include "allocators/plugins/torch.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/own_process.h"
#include "harness/tools/parity/live_parity.h"
#include "harness/tools/parity/parity_input.h"
#include "harness/tools/parity/program.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark {
namespace {

using caching::Program;

constexpr std::uint64_t kStepsPerProgram = 20'000;
constexpr std::uint64_t kProgramShrinkAttemptMax = 400;
// Processes of PyTorch that are asked again, where releases differ from themselves: the rarer of
// two answers came in 4 of 24.
constexpr int kAgainMax = 32;

struct LiveTotals {
  std::uint64_t programs = 0, steps = 0, allocations = 0, failures = 0, counters = 0;
  std::uint64_t known_bugs = 0, both_failed = 0, order_dependent = 0, differences = 0;
  std::uint64_t unanswered = 0, self_differing = 0;

  void add(const LiveResult& result) {
    ++programs;
    steps += result.step_count;
    allocations += result.allocation_count;
    failures += result.failure_count;
    counters += result.counter_count;
    both_failed += result.both_failed ? 1 : 0;
    order_dependent += result.order_dependent_count;
    known_bugs += result.ended_at_known_bug ? 1 : 0;
    differences += result.difference ? 1 : 0;
    unanswered += result.unanswered ? 1 : 0;
  }

  [[nodiscard]] ExitCode exit_code() const {
    if (differences > 0) return ExitCode::Regression;
    return unanswered > 0 ? ExitCode::CellsIncomplete : ExitCode::Pass;
  }
};

void print_totals(const LiveTotals& totals) {
  fmt::print(
      "{} programs, {} operations: {} placements ({} failures) and {} counter values compared, "
      "{} differences\n",
      totals.programs, totals.steps, totals.allocations, totals.failures, totals.counters,
      totals.differences);
  if (totals.order_dependent > 0) {
    fmt::print(
        "{} values of inactive_split counters differ where several streams had events done at "
        "once: PyTorch takes them in the order of a hash of the streams' handles, we in that of "
        "first "
        "use\n",
        totals.order_dependent);
  }
  if (totals.unanswered > 0) {
    fmt::print("{} programs could not be compared to their end: a side did not answer\n",
               totals.unanswered);
  }
  if (totals.both_failed > 0) {
    fmt::print("{} programs ended because both failed with an error of the device\n",
               totals.both_failed);
  }
  if (totals.self_differing > 0) {
    fmt::print(
        "{} programs differ from PyTorch in one process of it and not in another: the ages of its "
        "blocks follow from the order of a hash of its streams' handles\n",
        totals.self_differing);
  }
  if (totals.known_bugs > 0) {
    fmt::print(
        "{} programs ended at a bug of PyTorch's allocator that leaves it broken: it gives back a "
        "piece of a segment after max_split_size_mb was lowered, or loses count of what a private "
        "pool has in expandable segments\n",
        totals.known_bugs);
  }
}

void print_difference(const LiveDifference& difference) {
  fmt::print("step {} ({}) differs\n  PyTorch: {}\n  ours:    {}\n", difference.step,
             difference.request, difference.torch, difference.caching);
}

void print_silence(const LiveResult& result) {
  fmt::print(
      "could not be compared from step {} on: {}; not a difference: run it again, and see whether "
      "another program stops or starves it\n",
      result.step_count, *result.unanswered);
}

std::uint64_t limit_of(const std::string& text) {
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes.has_value()) return *bytes;
  throw UsageError({.what = "this is no size",
                    .where = "--limit",
                    .wanted = "a number with its unit, as 2GiB (2^30 bytes each) or 2GB (10^9)",
                    .got = text,
                    .next = explain_bytes(text)});
}

Program program_of(const ParityCommand& command) {
  Program program;
  std::error_code error;
  if (std::filesystem::is_regular_file(command.trace, error)) {
    program = caching::program_from_trace(
        read_unpacked(command.trace, kTraceInput, "the trace is damaged"));
  } else {
    program.events = read_operations(command.trace);
    std::erase_if(program.events, [](const Event& event) { return event.kind == EventKind::Mark; });
  }
  if (command.conf) program.conf = conf_of_user(*command.conf);
  if (!command.limit.empty()) {
    program.change({.conf = {}, .limit_bytes = limit_of(command.limit)});
    std::ranges::rotate(program.events, program.events.end() - 1);
  }
  return program;
}

// The shortest program that still differs, as a trace to keep.
void save_shortest(const ParityCommand& command, const Program& program, const LiveOptions& options,
                   std::uint64_t seed) {
  const Program shortest = shrink_live(program, options, kProgramShrinkAttemptMax);
  const std::string path = fmt::format("{}/live_{}.csv", command.save_folder, seed);
  std::filesystem::create_directories(command.save_folder);
  ByteWriter writer(path);
  writer.write(to_trace(shortest));
  writer.finish();
  fmt::print("{} steps that still differ: {}\n", shortest.events.size(), path);
}

// "2.13" of "caching@2.13".
std::string rules_of(const LiveOptions& options) {
  return options.caching.substr(options.caching.find('@') + 1);
}

// The release that was asked for, else the one of the plugin of `torch`.
LiveOptions options_of(const ParityCommand& command) {
  const bool own = command.pytorch.empty();
  const std::string version = own ? torch_version_of({}) : command.pytorch;
  return {.program_path = own_program_path(),
          .torch = own ? "torch" : "torch@" + version,
          .caching = caching::require_rules(version, "--pytorch").allocator()};
}

// Outside text is in it: what an allocator says of itself.
ExitCode print_answers(const ParityCommand& command) {
  const BackendEntry& entry = find_backend(command.answers);
  if (const std::string reason = entry.unavailable_reason(); !reason.empty()) {
    fmt::print("skipped: {}\n", reason);
    return ExitCode::NotReady;
  }
  const std::string text =
      live_answers(program_of(command), {.program_path = own_program_path()}, entry.name);
  fmt::print("{}", text);
  return ExitCode::Pass;
}

// A difference counts where every process of PyTorch differs. Only where blocks are taken in the
// order in which they were made, a process can differ from another one.
LiveResult compare_one(const Program& program, const LiveOptions& options, LiveTotals& totals) {
  LiveResult result = compare_live(program, options);
  if (program.rules->tie_break != caching::TieBreak::BlockOrder) return result;
  for (int again = 0; result.difference && again < kAgainMax; ++again) {
    LiveResult other = compare_live(program, options);
    if (other.difference) continue;
    ++totals.self_differing;
    return other;
  }
  return result;
}

ExitCode compare_random(const ParityCommand& command, const LiveOptions& options) {
  LiveTotals totals;
  for (std::uint64_t seed = command.seed; totals.steps < command.operation_count; ++seed) {
    const std::uint64_t length = std::min(kStepsPerProgram, command.operation_count - totals.steps);
    const Program program = caching::make_program(seed, length, caching::ProgramVariety::AllConfs,
                                                  *caching::find_rules(rules_of(options)));
    const LiveResult result = compare_one(program, options, totals);
    totals.add(result);
    if (!result.difference && !result.unanswered) continue;
    fmt::print("seed {} (conf '{}'): ", seed, program.conf);
    if (result.unanswered) {
      print_silence(result);
    } else {
      print_difference(*result.difference);
      if (!command.save_folder.empty()) save_shortest(command, program, options, seed);
    }
    std::fflush(stdout);
    totals.steps += length - result.step_count;
  }
  print_totals(totals);
  return totals.exit_code();
}

}  // namespace

ExitCode live_command(const ParityCommand& command) {
  if (!command.limit.empty()) (void)limit_of(command.limit);
  if (!command.answers.empty()) return print_answers(command);
  const bool own = command.pytorch.empty();
  const BackendEntry& entry = find_backend(own ? "torch" : "torch@" + command.pytorch);
  if (const std::string reason = entry.unavailable_reason(); !reason.empty()) {
    fmt::print("skipped: {}\n", reason);
    return ExitCode::NotReady;
  }
  const LiveOptions options = options_of(command);
  if (command.trace == "random") return compare_random(command, options);
  const Program program = program_of(command);
  const LiveResult result = compare_live(program, options);
  LiveTotals totals;
  totals.add(result);
  if (result.difference) print_difference(*result.difference);
  if (result.unanswered) print_silence(result);
  print_totals(totals);
  return totals.exit_code();
}

}  // namespace allocmark
