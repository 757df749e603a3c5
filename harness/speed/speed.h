// How fast the harness itself is, against its targets: what a timed call costs on the null backend,
// how many events per second a replay reaches on the caching backend without a recorder, and how
// much memory a very long trace needs. This file times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace allocmark {

struct SpeedOptions {
  std::uint64_t null_event_count = 2'000'000;
  std::uint64_t caching_event_count = 10'000'000;
  std::uint64_t churn_event_count = 100'000'000;
  std::string recorded_workload = "gpt2_train_amp";  // replayed again and again beside the churn
};

struct SpeedReport {
  double clock_pair_ns = 0;          // an empty timed region
  double null_latency_ns_p50 = 0;    // what the recorder shows for one call; target: at most 25
  double null_latency_ns_p99 = 0;    // target: at most 60
  double null_cpu_ns_per_event = 0;  // the whole loop with the recorder on, mean
  double null_bare_cpu_ns_per_event = 0;  // the whole loop with the recorder off, mean
  // Millions of events per second of one core's processor time, best of some rounds; nothing where
  // the backend cannot run here. Target: 5.
  std::optional<double> caching_churn_million_events_per_s;
  std::optional<double> caching_recorded_million_events_per_s;
  std::string caching_reason;  // why there is no figure
  std::uint64_t churn_event_count = 0;
  double churn_generate_ns_per_event = 0;  // generate, compile and replay on null, mean
  std::uint64_t resident_bytes_peak = 0;   // of this process after all that; target: below 128 MiB
};

[[nodiscard]] SpeedReport measure_speed(const SpeedOptions& options);

// One line per figure, with its target and whether it is met.
[[nodiscard]] std::string to_text(const SpeedReport& report);

}  // namespace allocmark
