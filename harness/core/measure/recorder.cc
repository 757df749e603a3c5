// Summaries and merging of recorded latencies, outside the timed region.
#include "harness/core/measure/recorder.h"

#include <memory>

namespace allocmark {

namespace {

double to_ns(std::uint64_t picoseconds) { return static_cast<double>(picoseconds) / 1000.0; }

}  // namespace

LatencySummary summarise_picoseconds(const Histogram& histogram) {
  LatencySummary summary;
  summary.count = histogram.count();
  if (summary.count == 0) return summary;
  summary.p50_ns = to_ns(histogram.quantile(0.5));
  summary.p90_ns = to_ns(histogram.quantile(0.9));
  summary.p99_ns = to_ns(histogram.quantile(0.99));
  summary.p999_ns = to_ns(histogram.quantile(0.999));
  summary.max_ns = to_ns(histogram.max());
  summary.mean_ns = to_ns(histogram.sum()) / static_cast<double>(summary.count);
  return summary;
}

Recorder::Recorder(const RecorderOptions& options)
    : options_(options),
      parts_(std::size_t{kOperationCount} * kSizeClassCount),
      own_(kOperationCount),
      scaled_(kOperationCount),
      steps_{StepTimes(options.step_count_max)} {
  steps_.picoseconds.reserve();
}

void Recorder::scale_host(const HostScale& scale) {
  const auto picoseconds = [](double time_ns) {
    return static_cast<std::uint64_t>(time_ns * kPicosecondsPerNs);
  };
  host_multiplier_ = static_cast<std::uint64_t>(
      scale.factor * static_cast<double>(std::uint64_t{1} << kHostScaleBits));
  clock_picoseconds_ = picoseconds(scale.clock_ns);
  target_clock_picoseconds_ = picoseconds(scale.target_clock_ns);
  clock_step_picoseconds_ = picoseconds(scale.clock_step_ns);
  host_scales_.assign(1, scale);
}

void Recorder::clear() {
  for (Parts& parts : parts_) {
    for (Histogram* histogram : {&parts.total, &parts.host, &parts.driver}) {
      if (histogram->count() != 0) *histogram = Histogram{};
    }
  }
  for (std::vector<Histogram>* histograms : {&own_, &scaled_}) {
    for (Histogram& histogram : *histograms) {
      if (histogram.count() != 0) histogram = Histogram{};
    }
  }
  host_multiplier_ = 0;
  clock_picoseconds_ = target_clock_picoseconds_ = clock_step_picoseconds_ = 0;
  host_scales_.clear();
  steps_.clear();
  parts_of_pass_.clear();
  program_picoseconds_ = 0;
  driver_ns_total_ = 0;
  in_step_ = false;
}

void Recorder::merge(const Recorder& other) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].total.merge(other.parts_[i].total);
    parts_[i].host.merge(other.parts_[i].host);
    parts_[i].driver.merge(other.parts_[i].driver);
  }
  for (std::size_t i = 0; i < scaled_.size(); ++i) scaled_[i].merge(other.scaled_[i]);
  host_scales_.insert(host_scales_.end(), other.host_scales_.begin(), other.host_scales_.end());
  steps_.picoseconds.merge(other.steps_.picoseconds);
  driver_ns_total_ += other.driver_ns_total_;
}

OperationLatency Recorder::summarise(const Parts& parts) const {
  OperationLatency latency;
  latency.host = summarise_picoseconds(parts.host);
  latency.total = options_.has_driver_model ? summarise_picoseconds(parts.total) : latency.host;
  latency.driver = summarise_picoseconds(parts.driver);
  return latency;
}

OperationLatency Recorder::latency(Operation operation, std::uint32_t size_class) const {
  return summarise(parts_of(operation, size_class));
}

OperationLatency Recorder::latency(Operation operation) const {
  const auto sum = std::make_unique<Parts>();
  for (std::uint32_t size_class = 0; size_class < kSizeClassCount; ++size_class) {
    const Parts& parts = parts_of(operation, size_class);
    sum->total.merge(parts.total);
    sum->host.merge(parts.host);
    sum->driver.merge(parts.driver);
  }
  return summarise(*sum);
}

LatencyBuckets Recorder::buckets(Operation operation) const {
  const auto sum = std::make_unique<Histogram>();
  for (std::uint32_t size_class = 0; size_class < kSizeClassCount; ++size_class) {
    const Parts& parts = parts_of(operation, size_class);
    sum->merge(options_.has_driver_model ? parts.total : parts.host);
  }
  return sum->buckets();
}

LatencyBuckets Recorder::own_buckets(Operation operation) const {
  if (!options_.has_driver_model) return {};
  const auto host = std::make_unique<Histogram>();
  for (std::uint32_t size_class = 0; size_class < kSizeClassCount; ++size_class) {
    host->merge(parts_of(operation, size_class).host);
  }
  const Histogram& own = own_[static_cast<std::uint32_t>(operation)];
  return own.count() * 2 >= host->count() ? own.buckets() : host->buckets();
}

LatencySummary Recorder::scaled_latency(Operation operation) const {
  return summarise_picoseconds(scaled_[static_cast<std::uint32_t>(operation)]);
}

LatencySummary Recorder::latency_all() const {
  const auto sum = std::make_unique<Histogram>();
  for (const Parts& parts : parts_) {
    sum->merge(options_.has_driver_model ? parts.total : parts.host);
  }
  return summarise_picoseconds(*sum);
}

double Recorder::step_ns_median() const { return to_ns(steps_.picoseconds.median()); }

}  // namespace allocmark
