#include "harness/tools/fidelity/fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "workloads/trace/request_marks.h"
#include "workloads/trace/trace_rules.h"

namespace allocmark {
namespace {

// Eighths of an octave: the exponent and the three bits after the leading one. Requests of 0 bytes
// weigh nothing.
std::size_t size_bin(std::uint64_t size_bytes) {
  const auto exponent = static_cast<std::size_t>(std::bit_width(size_bytes)) - 1;
  const std::uint64_t fraction =
      exponent >= 3 ? size_bytes >> (exponent - 3) & 7 : size_bytes << (3 - exponent) & 7;
  return exponent * 8 + static_cast<std::size_t>(fraction);
}

struct Section {
  std::uint64_t alloc_count = 0;
  std::uint64_t bytes = 0;
};

// The sections between marks without set-up, first step (it makes the optimizer's state) and last
// (what ends the trace may cut it).
std::vector<Section> steady_sections(const std::vector<Section>& sections) {
  if (sections.size() < 4) return {};
  return {sections.begin() + 2, sections.end() - 1};
}

std::uint64_t median_of(const std::vector<Section>& sections, std::uint64_t Section::*field) {
  std::vector<std::uint64_t> values;
  for (const Section& section : sections) values.push_back(section.*field);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Both passes over one source.
class Measurement {
 public:
  explicit Measurement(EventSource* source) : source_(source) {
    shape_.name = source->header().name;
  }
  [[nodiscard]] TraceShape run();

 private:
  template <typename Visit>
  void each_event(Visit visitor);
  void visit(const Event& event);
  [[nodiscard]] bool ends_step(const Event& mark) const {
    return mark_class_of(source_->labels()[mark.id]) == MarkClass::Step;
  }
  void add_alloc(const Event& event);
  void add_free(const Event& event);
  void add_to_curve(std::uint64_t live_bytes);
  void fill_curve(std::size_t point_count);

  EventSource* source_;
  TraceShape shape_;
  TraceRules rules_;
  std::vector<Section> sections_ = {Section()};
  std::uint64_t operation_count_ = 0;  // allocs and frees of the whole trace
  std::uint64_t operation_ = 0;        // of those, so far
  std::uint64_t event_index_ = 0;
  std::uint64_t live_bytes_ = 0;  // after the last operation
  LiveBlocks births_;             // by operation
};

template <typename Visit>
void Measurement::each_event(Visit visitor) {
  source_->rewind();
  for (std::span<const Event> batch = source_->next(); !batch.empty(); batch = source_->next()) {
    for (const Event& event : batch) visitor(event);
  }
}

TraceShape Measurement::run() {
  each_event([this](const Event& event) {
    if (event.kind == EventKind::Alloc || event.kind == EventKind::Free) ++operation_count_;
  });
  each_event([this](const Event& event) { visit(event); });
  fill_curve(kCurvePointCount);
  if (sections_.back().alloc_count == 0) sections_.pop_back();
  const std::vector<Section> steady = steady_sections(sections_);
  shape_.steady_step_count = steady.size();
  if (!steady.empty()) {
    shape_.allocs_per_step = median_of(steady, &Section::alloc_count);
    shape_.bytes_per_step = median_of(steady, &Section::bytes);
  }
  shape_.lifetime_bin_counts.back() = rules_.live().count();
  return std::move(shape_);
}

void Measurement::visit(const Event& event) {
  if (std::optional<ErrorText> broken = rules_.check(event, event_index_)) {
    broken->where = fmt::format("event {} of '{}'", event_index_, shape_.name);
    throw UsageError(std::move(*broken));
  }
  ++event_index_;
  if (event.kind == EventKind::Alloc) add_alloc(event);
  if (event.kind == EventKind::Free) add_free(event);
  if (event.kind == EventKind::Mark && ends_step(event) && sections_.back().alloc_count > 0) {
    sections_.emplace_back();
  }
}

void Measurement::add_alloc(const Event& event) {
  ++shape_.alloc_count;
  shape_.requested_bytes += event.size_bytes;
  ++sections_.back().alloc_count;
  sections_.back().bytes += event.size_bytes;
  if (event.size_bytes > 0) shape_.size_bin_bytes[size_bin(event.size_bytes)] += event.size_bytes;
  births_.insert({.id = event.id, .size_bytes = event.size_bytes, .birth = operation_});
  shape_.requested_bytes_peak = std::max(shape_.requested_bytes_peak, rules_.live_bytes());
  add_to_curve(rules_.live_bytes());
}

void Measurement::add_free(const Event& event) {
  const std::uint64_t lived = operation_ - births_.find(event.id)->birth;
  births_.erase(event.id);
  ++shape_.lifetime_bin_counts[static_cast<std::size_t>(std::bit_width(lived)) - 1];
  add_to_curve(rules_.live_bytes());
}

void Measurement::add_to_curve(std::uint64_t live_bytes) {
  // 2^64 / 1024 operations are more than any trace has.
  fill_curve(static_cast<std::size_t>(operation_ * kCurvePointCount / operation_count_) + 1);
  std::uint64_t& highest = shape_.live_bytes_curve.back();
  highest = std::max(highest, live_bytes);
  live_bytes_ = live_bytes;
  ++operation_;
}

// Parts of the trace begin with what is live then; a trace of few operations leaves some without.
void Measurement::fill_curve(std::size_t point_count) {
  while (shape_.live_bytes_curve.size() < point_count) {
    shape_.live_bytes_curve.push_back(live_bytes_);
  }
}

// The common part of two histograms, each taken as shares of its sum.
template <typename Histogram>
double overlap(const Histogram& left, const Histogram& right) {
  double left_sum = 0;
  double right_sum = 0;
  for (const std::uint64_t value : left) left_sum += static_cast<double>(value);
  for (const std::uint64_t value : right) right_sum += static_cast<double>(value);
  if (left_sum == 0 || right_sum == 0) return left_sum == right_sum ? 1 : 0;
  double common = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    common += std::min(static_cast<double>(left[i]) / left_sum,
                       static_cast<double>(right[i]) / right_sum);
  }
  return common;
}

double change(std::uint64_t reference, std::uint64_t generated) {
  return static_cast<double>(generated) / static_cast<double>(reference) - 1;
}

std::optional<double> change(const std::optional<std::uint64_t>& reference,
                             const std::optional<std::uint64_t>& generated) {
  if (!reference || !generated || *reference == 0) return std::nullopt;
  return change(*reference, *generated);
}

double curve_distance(const TraceShape& reference, const TraceShape& generated) {
  const std::vector<std::uint64_t>& left = reference.live_bytes_curve;
  const std::vector<std::uint64_t>& right = generated.live_bytes_curve;
  double sum = 0;
  for (std::size_t i = 0; i < kCurvePointCount; ++i) {
    sum += std::abs(static_cast<double>(left[i]) - static_cast<double>(right[i]));
  }
  return sum / static_cast<double>(kCurvePointCount) /
         static_cast<double>(reference.requested_bytes_peak);
}

void require_allocs(const TraceShape& shape) {
  if (shape.requested_bytes_peak > 0) return;
  throw UsageError({.what = "the trace asks for no memory",
                    .where = fmt::format("trace '{}'", shape.name),
                    .wanted = "allocs of more than 0 bytes, so that there is something to compare",
                    .got = fmt::format("{} allocs", shape.alloc_count)});
}

std::string count_line(std::string_view name, std::optional<std::uint64_t> reference,
                       std::optional<std::uint64_t> generated, std::optional<double> difference) {
  const auto number = [](const std::optional<std::uint64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string("-");
  };
  const std::string text =
      difference ? fmt::format("{:+.4f} %", *difference * 100) : std::string("no steps");
  return fmt::format("{:<26} {:>20} {:>20} {:>14}\n", name, number(reference), number(generated),
                     text);
}

}  // namespace

TraceShape measure_shape(EventSource& source) { return Measurement(&source).run(); }

FidelityReport compare_shapes(const TraceShape& reference, const TraceShape& generated) {
  require_allocs(reference);
  require_allocs(generated);
  return {.allocs_per_step_change = change(reference.allocs_per_step, generated.allocs_per_step),
          .bytes_per_step_change = change(reference.bytes_per_step, generated.bytes_per_step),
          .peak_change = change(reference.requested_bytes_peak, generated.requested_bytes_peak),
          .size_overlap = overlap(reference.size_bin_bytes, generated.size_bin_bytes),
          .lifetime_overlap = overlap(reference.lifetime_bin_counts, generated.lifetime_bin_counts),
          .curve_distance = curve_distance(reference, generated)};
}

std::string to_text(const FidelityReport& report, const TraceShape& reference,
                    const TraceShape& generated) {
  std::string text =
      fmt::format("{:<26} {:>20} {:>20} {:>14}\n", "", "reference", "generated", "distance");
  text += count_line("allocs per step", reference.allocs_per_step, generated.allocs_per_step,
                     report.allocs_per_step_change);
  text += count_line("requested bytes per step", reference.bytes_per_step, generated.bytes_per_step,
                     report.bytes_per_step_change);
  text += count_line("peak requested bytes", reference.requested_bytes_peak,
                     generated.requested_bytes_peak, report.peak_change);
  const auto share = [&text](std::string_view name, double value, std::string_view meaning) {
    text += fmt::format("{:<26} {:>41} {:>14}\n", name, meaning, fmt::format("{:.4f}", value));
  };
  share("size overlap", report.size_overlap, "bytes by size, 1 = the same");
  share("lifetime overlap", report.lifetime_overlap, "blocks by lifetime, 1 = the same");
  share("live-bytes curve", report.curve_distance, "mean distance / peak, 0 = the same");
  return text;
}

}  // namespace allocmark
