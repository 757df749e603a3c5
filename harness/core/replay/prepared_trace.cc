// Reading a workload for replay.
#include "harness/core/replay/prepared_trace.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "workloads/trace/recorded_traces.h"
#include "workloads/trace/trace_hash.h"

namespace allocmark {
namespace {

// The request after which nothing more was asked, and whether one that failed came later.
struct LastRequests {
  std::uint64_t event_count = 0;
  std::uint64_t served_end_event = 0;  // behind the last one that was served
  bool any_failed_since = false;

  void add(const Event& event) {
    ++event_count;
    if (event.kind != EventKind::Alloc) return;
    any_failed_since = event.tensor == TensorKind::Failed;
    if (!any_failed_since) served_end_event = event_count;
  }
};

}  // namespace

PreparedTrace::PreparedTrace(std::unique_ptr<EventSource> source, std::uint64_t kept_count_max)
    : source_(std::move(source)) {
  read(kept_count_max);
  if (!is_kept_) {
    // Only the prefix is of use then.
    steps_.resize(std::min<std::size_t>(steps_.size(), std::size_t{1} << 16));
    steps_.shrink_to_fit();
  }
}

void PreparedTrace::read(std::uint64_t kept_count_max) {
  TraceCompiler compiler(wanted_from_event_);
  LastRequests last;
  TraceHash hash;
  std::vector<ReplayStep> steps;
  while (true) {
    const std::span<const Event> events = source_->next();
    if (events.empty()) break;
    steps.clear();
    compiler.compile(events, steps, source_->labels());
    for (const Event& event : events) {
      const bool is_mark = event.kind == EventKind::Mark && event.id < source_->labels().size();
      last.add(event);
      hash.add(event, is_mark ? std::string_view(source_->labels()[event.id]) : std::string_view());
    }
    const std::uint64_t room =
        kept_count_max - std::min<std::uint64_t>(kept_count_max, steps_.size());
    const std::uint64_t kept_count = std::min<std::uint64_t>(room, steps.size());
    steps_.insert(steps_.end(), steps.begin(),
                  steps.begin() + static_cast<std::ptrdiff_t>(kept_count));
    is_kept_ = is_kept_ && kept_count == steps.size();
  }
  const bool is_log = source_->header().generator == kLogGenerator;
  if (!is_log && last.any_failed_since && wanted_from_event_ > last.served_end_event) {
    wanted_from_event_ = last.served_end_event;
    source_->rewind();
    steps_.clear();
    is_kept_ = true;
    return read(kept_count_max);
  }
  facts_ = compiler.facts();
  facts_.stream_count = std::max(facts_.stream_count, source_->header().stream_count);
  slot_count_ = compiler.slot_count();
  name_ = source_->header().name;
  hash_ = hash.value();
}

void PreparedTrace::for_each_batch(const std::function<bool(const TraceBatch&)>& consume) {
  TraceCompiler compiler(wanted_from_event_);
  std::vector<ReplayStep> steps;
  source_->rewind();
  while (true) {
    const std::span<const Event> events = source_->next();
    if (events.empty()) return;
    steps.clear();
    compiler.compile(events, steps, source_->labels());
    const TraceBatch batch{.events = events, .steps = steps, .slot_count = compiler.slot_count()};
    if (!consume(batch)) return;
  }
}

void PreparedTrace::for_each_step_batch(const std::function<bool(const TraceBatch&)>& consume) {
  if (!is_kept_) {
    for_each_batch(consume);
    return;
  }
  (void)consume(TraceBatch{.events = {}, .steps = steps_, .slot_count = slot_count_});
}

TraceBatch PreparedTrace::prefix(std::uint64_t count_max) const {
  const std::span<const ReplayStep> steps(steps_);
  const std::size_t count = std::min<std::size_t>(steps.size(), count_max);
  return TraceBatch{.events = {}, .steps = steps.first(count), .slot_count = slot_count_};
}

}  // namespace allocmark
