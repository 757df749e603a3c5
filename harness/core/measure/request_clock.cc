// Two clocks of a server, with and without the allocator's time.
#include "harness/core/measure/request_clock.h"

#include <algorithm>
#include <memory>

#include "harness/core/measure/clock.h"

namespace allocmark {

namespace {

LatencySummary summarise_ns(const Histogram& histogram) {
  LatencySummary summary;
  summary.count = histogram.count();
  if (summary.count == 0) return summary;
  summary.p50_ns = static_cast<double>(histogram.quantile(0.5));
  summary.p90_ns = static_cast<double>(histogram.quantile(0.9));
  summary.p99_ns = static_cast<double>(histogram.quantile(0.99));
  summary.p999_ns = static_cast<double>(histogram.quantile(0.999));
  summary.max_ns = static_cast<double>(histogram.max());
  summary.mean_ns = static_cast<double>(histogram.sum()) / static_cast<double>(summary.count);
  return summary;
}

}  // namespace

void RequestClock::Clock::launch(std::uint32_t stream, std::uint64_t duration_ns) {
  std::uint64_t& end_ns = streams_ns[stream];
  end_ns = std::max(end_ns, host_ns) + duration_ns;
}

void RequestClock::Clock::synchronize() {
  for (const std::uint64_t end_ns : streams_ns) host_ns = std::max(host_ns, end_ns);
}

void RequestClock::Clock::idle_until(std::uint64_t time_ns) {
  host_ns = std::max(host_ns, start_ns + time_ns);
}

// A mark may name a time to come where a trace was written by hand: such a request took 0.
std::uint64_t RequestClock::Clock::since(std::uint64_t time_ns) const {
  return host_ns > start_ns + time_ns ? host_ns - start_ns - time_ns : 0;
}

RequestClock::RequestClock(std::uint32_t stream_count) {
  real_.streams_ns.resize(stream_count);
  ideal_.streams_ns.resize(stream_count);
}

void RequestClock::begin_pass() {
  for (Clock* clock : {&real_, &ideal_}) {
    clock->host_ns = 0;
    clock->start_ns = 0;
    std::fill(clock->streams_ns.begin(), clock->streams_ns.end(), 0);
  }
  spent_picoseconds_ = 0;
  rest_picoseconds_ = 0;
  latency_.merge(pass_latency_);
  pass_latency_ = Histogram{};
}

void RequestClock::start_server() {
  for (Clock* clock : {&real_, &ideal_}) clock->start_ns = clock->host_ns;
}

void RequestClock::spend(std::uint64_t total_picoseconds) {
  rest_picoseconds_ += total_picoseconds - spent_picoseconds_;
  spent_picoseconds_ = total_picoseconds;
  real_.host_ns += rest_picoseconds_ / kPicosecondsPerNs;
  rest_picoseconds_ %= kPicosecondsPerNs;
}

void RequestClock::launch(std::uint32_t stream, std::uint64_t duration_ns) {
  real_.launch(stream, duration_ns);
  ideal_.launch(stream, duration_ns);
}

void RequestClock::synchronize() {
  real_.synchronize();
  ideal_.synchronize();
}

void RequestClock::idle_until(std::uint64_t time_ns) {
  real_.idle_until(time_ns);
  ideal_.idle_until(time_ns);
}

void RequestClock::first_token(std::uint64_t arrival_ns) {
  first_token_.add(real_.since(arrival_ns));
  ideal_first_token_.add(ideal_.since(arrival_ns));
}

void RequestClock::request_done(std::uint64_t arrival_ns) {
  const std::uint64_t latency_ns = real_.since(arrival_ns);
  const std::uint64_t ideal_ns = ideal_.since(arrival_ns);
  pass_latency_.add(latency_ns);
  ideal_latency_.add(ideal_ns);
  delay_.add(latency_ns > ideal_ns ? latency_ns - ideal_ns : 0);
}

RequestLatency RequestClock::latency() const {
  const auto pooled = std::make_unique<Histogram>(latency_);
  pooled->merge(pass_latency_);
  return {.latency = summarise_ns(*pooled),
          .first_token = summarise_ns(first_token_),
          .ideal_latency = summarise_ns(ideal_latency_),
          .ideal_first_token = summarise_ns(ideal_first_token_),
          .delay = summarise_ns(delay_)};
}

double RequestClock::pass_latency_ns_p99() const { return summarise_ns(pass_latency_).p99_ns; }

}  // namespace allocmark
