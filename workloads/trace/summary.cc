#include "workloads/trace/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "workloads/trace/trace_hash.h"
#include "workloads/trace/trace_rules.h"

namespace allocmark {
namespace {

class Counter {
 public:
  void add(const Event& event, std::string_view label);
  void check_end() const;
  [[nodiscard]] TraceSummary finish(const EventSource& source);

 private:
  void add_alloc(const Event& event);
  void add_failed(const Event& event);
  void add_free(const Event& event);

  TraceSummary summary_;
  TraceRules rules_;
  TraceHash hash_;
  std::array<std::uint64_t, kTensorKindCount> live_bytes_by_kind_{};
  // Kinds of live blocks that say one; blocks of unknown kind, the most common in recordings, are
  // left out.
  std::unordered_map<std::uint64_t, TensorKind> live_kinds_;
  std::uint64_t failed_live_count_ = 0;  // among the rules' live blocks, until their frees
};

std::size_t octave(std::uint64_t value) {
  return static_cast<std::size_t>(std::bit_width(value)) - 1;
}

void Counter::add(const Event& event, std::string_view label) {
  if (event.kind == EventKind::Free) add_free(event);
  if (std::optional<ErrorText> broken = rules_.check(event, summary_.event_count)) {
    broken->where = fmt::format("event {}", summary_.event_count);
    throw UsageError(std::move(*broken));
  }
  if (event.kind == EventKind::Alloc) add_alloc(event);
  summary_.host_bytes_peak = std::max(summary_.host_bytes_peak, rules_.host_live_bytes());
  hash_.add(event, label);
  ++summary_.kind_counts[static_cast<std::size_t>(event.kind)];
  ++summary_.event_count;
}

void Counter::check_end() const {
  std::optional<ErrorText> broken = rules_.check_end();
  if (!broken) return;
  broken->where = "the end of the trace";
  throw UsageError(std::move(*broken));
}

// Nobody had it: it is in no sum, no peak and no histogram.
void Counter::add_failed(const Event& event) {
  ++summary_.failed_count;
  summary_.failed_largest_bytes = std::max(summary_.failed_largest_bytes, event.size_bytes);
  ++summary_.tensor_counts[static_cast<std::size_t>(event.tensor)];
  live_kinds_.emplace(event.id, event.tensor);
  ++failed_live_count_;
}

void Counter::add_alloc(const Event& event) {
  if (event.tensor == TensorKind::Failed) return add_failed(event);
  const auto kind = static_cast<std::size_t>(event.tensor);
  const std::uint64_t room =
      std::numeric_limits<std::uint64_t>::max() - summary_.requested_bytes_total;
  summary_.requested_bytes_total += std::min(room, event.size_bytes);
  summary_.largest_bytes = std::max(summary_.largest_bytes, event.size_bytes);
  if (rules_.live_bytes() > summary_.requested_bytes_peak) {
    summary_.requested_bytes_peak = rules_.live_bytes();
    summary_.peak_event_index = summary_.event_count;
  }
  summary_.live_count_peak =
      std::max<std::uint64_t>(summary_.live_count_peak, rules_.live().count() - failed_live_count_);
  ++summary_.tensor_counts[kind];
  live_bytes_by_kind_[kind] += event.size_bytes;
  summary_.tensor_bytes_peak[kind] =
      std::max(summary_.tensor_bytes_peak[kind], live_bytes_by_kind_[kind]);
  if (event.tensor != TensorKind::Unknown) live_kinds_.emplace(event.id, event.tensor);
  if (event.size_bytes == 0) {
    ++summary_.zero_size_count;
  } else {
    ++summary_.size_octave_counts[octave(event.size_bytes)];
  }
}

// Before the rules forget the block; an unknown id is theirs to report.
void Counter::add_free(const Event& event) {
  const TracedBlock* block = rules_.live().find(event.id);
  if (block == nullptr) return;
  TensorKind tensor = TensorKind::Unknown;
  if (!live_kinds_.empty()) {
    const auto found = live_kinds_.find(event.id);
    if (found != live_kinds_.end()) {
      tensor = found->second;
      live_kinds_.erase(found);
    }
  }
  if (tensor == TensorKind::Failed) {
    --failed_live_count_;
    return;
  }
  ++summary_.lifetime_octave_counts[octave(summary_.event_count - block->birth)];
  live_bytes_by_kind_[static_cast<std::size_t>(tensor)] -= block->size_bytes;
}

TraceSummary Counter::finish(const EventSource& source) {
  summary_.header = source.header();
  summary_.stream_count = source.header().stream_count;
  summary_.label_count = source.labels().size();
  summary_.leftover_count = rules_.live().count() - failed_live_count_;
  summary_.leftover_bytes = rules_.live_bytes();
  summary_.host_leftover_count = rules_.host_live().count();
  summary_.host_leftover_bytes = rules_.host_live_bytes();
  summary_.hash = hash_.value();
  return summary_;
}

std::string octave_lines(std::string_view title,
                         const std::array<std::uint64_t, kOctaveCount>& counts, bool bytes) {
  constexpr std::uint64_t kBarWidth = 40;
  const std::uint64_t largest = *std::ranges::max_element(counts);
  if (largest == 0) return "";
  std::string text = fmt::format("\n{}\n", title);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const std::uint64_t from = std::uint64_t{1} << i;
    const std::uint64_t width = std::max<std::uint64_t>(1, counts[i] * kBarWidth / largest);
    text += fmt::format("  {:>12}  {:>12}  {}\n", bytes ? format_bytes(from) : std::to_string(from),
                        counts[i], std::string(width, '#'));
  }
  return text;
}

std::string tensor_lines(const TraceSummary& summary) {
  const std::size_t allocs = static_cast<std::size_t>(EventKind::Alloc);
  if (summary.tensor_counts[0] + summary.failed_count == summary.kind_counts[allocs]) return "";
  std::string text = "\nallocs by tensor kind: count, live bytes at that kind's peak\n";
  for (std::size_t i = 0; i < kTensorKindCount; ++i) {
    if (summary.tensor_counts[i] == 0 || static_cast<TensorKind>(i) == TensorKind::Failed) continue;
    text += fmt::format("  {:<15}  {:>12}  {:>12}\n", tensor_kind_name(static_cast<TensorKind>(i)),
                        summary.tensor_counts[i], format_bytes(summary.tensor_bytes_peak[i]));
  }
  return text;
}

}  // namespace

TraceSummary summarize(EventSource& source) {
  source.rewind();
  Counter counter;
  for_each_event(source, [&](const Event& event, auto label) { counter.add(event, label); });
  counter.check_end();
  return counter.finish(source);
}

std::string to_text(const TraceSummary& summary) {
  std::string text =
      fmt::format("trace                {}\ngenerator            {}\nseed                 {}\n",
                  summary.header.name, summary.header.generator, summary.header.seed);
  text += fmt::format("events               {}\n", summary.event_count);
  for (std::size_t i = 0; i < kEventKindCount; ++i) {
    if (summary.kind_counts[i] == 0) continue;
    text += fmt::format("  {:<18} {}\n", event_kind_name(static_cast<EventKind>(i)),
                        summary.kind_counts[i]);
  }
  const auto bytes = [](std::uint64_t count) {
    return fmt::format("{} ({} B)", format_bytes(count), count);
  };
  text += fmt::format("requested in all     {}\n", bytes(summary.requested_bytes_total));
  text += fmt::format("requested at peak    {} at event {}\n", bytes(summary.requested_bytes_peak),
                      summary.peak_event_index);
  text += fmt::format("largest request      {}\n", bytes(summary.largest_bytes));
  if (summary.failed_count > 0) {
    text += fmt::format(
        "failed requests      {}, the largest {}: they failed when this was recorded, and are in "
        "no "
        "other line\n",
        summary.failed_count, bytes(summary.failed_largest_bytes));
  }
  text += fmt::format("live blocks at peak  {}\n", summary.live_count_peak);
  text += fmt::format("never freed          {} blocks, {}\n", summary.leftover_count,
                      bytes(summary.leftover_bytes));
  if (summary.kind_counts[static_cast<std::size_t>(EventKind::HostAlloc)] > 0) {
    text += fmt::format("pinned on the host   {} at peak; never freed {} blocks, {}\n",
                        bytes(summary.host_bytes_peak), summary.host_leftover_count,
                        bytes(summary.host_leftover_bytes));
  }
  text += fmt::format("streams              {}\n", summary.stream_count);
  text += fmt::format("labels               {}\n", summary.label_count);
  if (summary.zero_size_count > 0) {
    text += fmt::format("note                 {} allocs of 0 bytes\n", summary.zero_size_count);
  }
  text += fmt::format("hash                 {:016x}\n", summary.hash);
  text += tensor_lines(summary);
  text += octave_lines("requests by size, from", summary.size_octave_counts, true);
  text += octave_lines("freed blocks by lifetime in events, from", summary.lifetime_octave_counts,
                       false);
  return text;
}

}  // namespace allocmark
