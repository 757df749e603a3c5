// Where another process's cache was in the way: replays, without a clock, of what its owner could
// do. This file checks; it times nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/cell/cell_run.h"

namespace allocmark {
namespace {

// Above the other processes' own peaks, for their rounding.
constexpr std::uint64_t kSpareShare = 50;  // one part of so many

// Most live requests of each process, failed ones included: what it needs at least.
std::vector<std::uint64_t> needed_bytes(PreparedTrace& trace) {
  const std::vector<TraceJob>& jobs = trace.jobs();
  std::vector<std::uint64_t> live_bytes(jobs.size(), 0);
  std::vector<std::uint64_t> peaks(jobs.size(), 0);
  trace.for_each_batch([&](const TraceBatch& batch) {
    for (const ReplayStep& step : batch.steps) {
      const bool is_request = step.kind == EventKind::Alloc || step.kind == EventKind::Free;
      if (!is_request || step.failed_before()) continue;
      std::size_t process = 0;
      while (process + 1 < jobs.size() && jobs[process + 1].first_stream <= step.stream) ++process;
      live_bytes[process] += step.kind == EventKind::Alloc ? step.size_bytes : -step.size_bytes;
      peaks[process] = std::max(peaks[process], live_bytes[process]);
    }
    return true;
  });
  return peaks;
}

}  // namespace

std::uint64_t CellRun::failures_with(const ProcessBackends::Remedy& remedy) {
  const std::uint64_t bytes_before = used_bytes();
  const BackendOptions options{.conf = spec_.key.conf_text(),
                               .memory_limit_bytes = memory_limit_bytes_};
  std::unique_ptr<Backend> backend =
      std::make_unique<ProcessBackends>(*entry_, options, trace_->jobs(), streams_->all(), remedy);
  Replayer replayer({.backend = backend.get(),
                     .processes = processes_of(backend.get()),
                     .work = work_.get(),
                     .streams = streams_->all(),
                     .on_oom = OomPolicy::Skip});
  trace_->for_each_step_batch([&](const TraceBatch& batch) {
    replayer.reserve_slots(batch.slot_count);
    replayer.run(batch.steps);
    return true;
  });
  const std::uint64_t oom_count = replayer.counts().oom_count;
  (void)end_pass(replayer, backend, bytes_before);
  return oom_count;
}

void CellRun::try_remedies(const std::vector<std::uint64_t>& cached_bytes) {
  const auto cause = static_cast<std::size_t>(OomCause::OtherProcess);
  if (result_.oom_cause_counts[cause] == 0) return;
  const auto note = [&](std::string name, std::uint64_t value) {
    result_.counters.emplace_back("remedy." + std::move(name), static_cast<std::int64_t>(value));
  };
  note("empty_cache.out_of_memory", failures_with({.others_give_back = true}));
  if (!entry_->capabilities.honours_memory_limit) return;
  // The process that caches most gets what the others' peaks leave of the card.
  const std::vector<std::uint64_t> needed = needed_bytes(*trace_);
  std::size_t holder = 0;
  std::uint64_t others_bytes = 0;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    others_bytes += needed[i] + needed[i] / kSpareShare;
    if (cached_bytes[i] > cached_bytes[holder]) holder = i;
  }
  others_bytes -= needed[holder] + needed[holder] / kSpareShare;
  const std::uint64_t limit_bytes =
      available_bytes_ > others_bytes ? available_bytes_ - others_bytes : 0;
  if (limit_bytes < needed[holder]) return note("fraction.impossible", 1);
  ProcessBackends::Remedy limited;
  limited.limits_bytes.assign(needed.size(), 0);
  limited.limits_bytes[holder] = limit_bytes;
  note("fraction.process", holder);
  note("fraction.limit_bytes", limit_bytes);
  note("fraction.out_of_memory", failures_with(limited));
}

}  // namespace allocmark
