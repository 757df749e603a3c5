// Replays of two traces (fidelity.h).
#include "harness/tools/fidelity/fidelity.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "harness/core/run/run.h"
#include "harness/job/interrupt.h"

namespace allocmark {
namespace {

constexpr const char* kFidelityDevice = "sim:h200";

CellSpec spec_of(const std::string& workload, const std::string& conf, std::uint64_t seed) {
  CellSpec spec;
  spec.key = {.workload = workload,
              .allocator = "caching",
              .conf = conf,
              .device = kFidelityDevice,
              .capacity = "unlimited",
              .seed = seed};
  spec.pass_count = 0;
  spec.timeout_s = 600;
  return spec;
}

ReplayNumbers numbers_of(const CellResult& result) {
  if (result.status != CellStatus::Ok) {
    throw CellsError({.what = "a replay gave no result",
                      .where = result.key.workload + " under '" + result.key.conf + "'",
                      .got = result.reason,
                      .next = "allocmark run --allocator caching --workload " +
                              shell_word(result.key.workload) + " shows it alone"});
  }
  ReplayNumbers numbers;
  if (result.oom_count > 0 || !result.reserved_bytes_peak) return numbers;
  numbers.reserved_bytes_peak = result.reserved_bytes_peak;
  if (result.allocated_bytes_at_reserved_peak && *result.reserved_bytes_peak > 0) {
    numbers.fragmentation_share =
        1 - static_cast<double>(*result.allocated_bytes_at_reserved_peak) /
                static_cast<double>(*result.reserved_bytes_peak);
  }
  return numbers;
}

}  // namespace

std::vector<std::vector<ReplayPair>> replay_pairs(const std::vector<ReplayRequest>& requests,
                                                  const std::vector<std::string>& confs) {
  // A workload that several requests share runs once.
  std::map<std::string, ReplayNumbers> results;
  std::vector<CellSpec> specs;
  const auto add = [&](const std::string& workload, const std::string& conf, std::uint64_t seed) {
    CellSpec spec = spec_of(workload, conf, seed);
    if (results.emplace(spec.key.id(), ReplayNumbers()).second) specs.push_back(std::move(spec));
  };
  for (const ReplayRequest& request : requests) {
    for (const std::string& conf : confs) {
      add(request.reference, conf, request.seed);
      add(request.generated, conf, request.seed);
    }
  }
  const InterruptGuard interrupt;
  const bool completed =
      run_cells(specs,
                {.program_path = own_program_path(),
                 .job_count = default_job_count(kFidelityDevice),
                 .interrupt = &interrupt},
                [&](const CellResult& result) { results[result.key.id()] = numbers_of(result); });
  if (!completed) {
    throw CellsError({.what = "interrupted before all traces were replayed"});
  }
  std::vector<std::vector<ReplayPair>> pairs;
  for (const ReplayRequest& request : requests) {
    std::vector<ReplayPair>& own = pairs.emplace_back();
    for (const std::string& conf : confs) {
      own.push_back(
          {.conf = conf,
           .reference = results[spec_of(request.reference, conf, request.seed).key.id()],
           .generated = results[spec_of(request.generated, conf, request.seed).key.id()]});
    }
  }
  return pairs;
}

}  // namespace allocmark
