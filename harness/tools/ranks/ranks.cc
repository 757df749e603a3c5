// See ranks.h.
#include "harness/tools/ranks/ranks.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/tools/ranks/rank_run.h"
#include "workloads/trace/request_marks.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

// Traces of all ranks of a run are kept: so many events together.
constexpr std::uint64_t kRankEventCountMax = std::uint64_t{16} << 20;

// Throws UsageError where the workload is bad, of several processes, or has more than
// `event_count_max` events.
RankTrace read_rank_trace(const std::string& workload, std::uint64_t seed,
                          std::uint64_t event_count_max) {
  const std::unique_ptr<EventSource> source = open_workload_with_kernels(workload, seed);
  RankTrace trace;
  TraceCompiler compiler;
  for (auto events = source->next(); !events.empty(); events = source->next()) {
    compiler.compile(events, trace.steps, source->labels());
    if (trace.steps.size() > event_count_max) {
      throw UsageError({.what = "the traces of the ranks are too long",
                        .where = workload,
                        .wanted = fmt::format("at most {} events in all", kRankEventCountMax),
                        .got = "more",
                        .next = "give the job fewer steps or layers, or choose fewer ranks"});
    }
  }
  if (!source->header().jobs.empty()) {
    throw UsageError({.what = "a rank is one process",
                      .where = workload,
                      .wanted = "a workload without 'beside'",
                      .got = "several processes",
                      .next = "give every rank a workload of its own"});
  }
  trace.labels = source->labels();
  trace.facts = compiler.facts();
  trace.facts.stream_count = std::max(trace.facts.stream_count, source->header().stream_count);
  trace.slot_count = compiler.slot_count();
  return trace;
}

void check_allocator(const BackendEntry& entry, const std::string& conf) {
  check_runs_here(entry, conf);
  check_serves_device(entry, "ranks");
  if (!entry.capabilities.real_memory || entry.name == "pluggable") {
    throw UsageError({.what = "this allocator is not for several devices",
                      .where = "--allocator",
                      .wanted = "one that takes memory of the device of its thread",
                      .got = entry.name,
                      .next = "choose another, as: caching, torch, async, native"});
  }
}

void check_capacity(const RankSpec& rank) {
  if (parse_capacity(rank.capacity).enforcement == CapacityEnforcement::Ballast) return;
  throw UsageError({.what = "a rank's capacity is its device's",
                    .where = fmt::format("capacity of rank {}", rank.number),
                    .wanted = "a size, unlimited, or a multiple as 1.05x",
                    .got = rank.capacity,
                    .next = "leave '@limit' out"});
}

void check_device_count(std::size_t rank_count) {
  int count = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&count));
  if (static_cast<std::size_t>(count) >= rank_count) return;
  throw EnvironmentError({.what = "too few GPUs",
                          .where = "--device",
                          .wanted = fmt::format("one for each of {} ranks", rank_count),
                          .got = fmt::format("{}", count),
                          .next = "choose fewer with --ranks, or simulate them: -d sim:h200"});
}

// Who comes to which collective operation.
std::map<std::string, std::vector<std::uint32_t>> collectives_of(
    const std::vector<RankTrace>& traces) {
  std::map<std::string, std::vector<std::uint32_t>> collectives;
  for (std::uint32_t i = 0; i < traces.size(); ++i) {
    for (const std::string& label : traces[i].labels) {
      if (mark_class_of(label) != MarkClass::Collective) continue;
      collectives[std::string(meeting_name(label))].push_back(i);
    }
  }
  return collectives;
}

// A rank may wait in vain for one that failed, and for one that waits for such a one. Without any
// failure the traces do not fit together.
void check_stalls(const std::vector<RankRow>& rows) {
  const bool any_failed =
      std::ranges::any_of(rows, [](const RankRow& row) { return row.failure.has_value(); });
  const auto stalled =
      std::ranges::find_if(rows, [](const RankRow& row) { return row.stall.has_value(); });
  if (any_failed || stalled == rows.end()) return;
  const RankStall& stall = *stalled->stall;
  throw UsageError(
      {.what = "the traces of the ranks do not fit together",
       .where = fmt::format("rank {}, meeting {} of '{}', after mark '{}'", stalled->number,
                            stall.number, stall.meeting, stall.step),
       .wanted = "every meeting in the traces of all who take part, in the same order",
       .got = stall.missing.empty()
                  ? std::string("nobody sends")
                  : fmt::format("no meeting of rank {}", fmt::join(stall.missing, ", ")),
       .next = "give every rank a trace of the same job, or let --ranks name all who meet"});
}

}  // namespace

std::vector<RankRow> run_ranks(const RanksSpec& spec) {
  const BackendEntry& entry = find_backend(spec.allocator);
  check_allocator(entry, spec.conf);
  std::vector<RankTrace> traces;
  std::uint64_t left = kRankEventCountMax;
  for (const RankSpec& rank : spec.ranks) {
    check_capacity(rank);
    traces.push_back(read_rank_trace(rank.workload, spec.seed, left));
    left -= traces.back().steps.size();
  }
  check_device_count(traces.size());
  // PyTorch's allocator is one object with a state for each device.
  std::unique_ptr<Backend> shared;
  if (family_of(entry.name) == "torch") shared = entry.make({.conf = spec.conf});
  const auto rank_count = static_cast<std::uint32_t>(traces.size());
  Schedule schedule(rank_count, collectives_of(traces));
  std::vector<RankRow> rows(rank_count);
  std::vector<RankWaits> waits(rank_count);
  std::vector<std::exception_ptr> errors(rank_count);
  const auto body = [&](std::uint32_t i) {
    try {
      if (!schedule.begin(i)) return;
      rows[i] = run_rank({.spec = &spec,
                          .entry = &entry,
                          .trace = &traces[i],
                          .shared_backend = shared.get(),
                          .schedule = &schedule,
                          .waits = &waits,
                          .index = i});
      schedule.end(i);
    } catch (...) {
      errors[i] = std::current_exception();
      schedule.abandon();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < rank_count; ++i) threads.emplace_back(body, i);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  check_stalls(rows);
  for (std::uint32_t i = 0; i < rank_count; ++i) {
    if (!rows[i].end_ns) continue;
    rows[i].wait_ns = waits[i].wait_ns;
    rows[i].delay_ns = waits[i].delay_ns;
  }
  return rows;
}

}  // namespace allocmark
