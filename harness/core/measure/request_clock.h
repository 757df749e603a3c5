// How long requests to a server took: the trace's kernels, waits and marks of requests flow in with
// the allocator's time, latencies of requests flow out. Two clocks run side by side, one that the
// allocator's time counts on and one with an allocator that costs nothing, so that the allocator's
// share shows. The host runs ahead of the device until a Sync, as a real one does: the allocator's
// time costs a request only what the device's work does not hide. This file times nothing itself.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/core/measure/histogram.h"
#include "results/schema.h"

namespace allocmark {

class RequestClock {
 public:
  explicit RequestClock(std::uint32_t stream_count);

  // A pass begins at time 0; samples of earlier passes stay.
  void begin_pass();
  // The server is ready: its times count from here. What came before is no request's delay.
  void start_server();

  // The allocator's time since the pass began; it was spent before what follows.
  void spend(std::uint64_t total_picoseconds);
  // A kernel of so many ns is put into the stream; it starts when what is there before it ends.
  void launch(std::uint32_t stream, std::uint64_t duration_ns);
  // The host waits for all streams.
  void synchronize();
  // The server waits for a request; no wait where that time has passed.
  void idle_until(std::uint64_t time_ns);
  // News of the request that arrived at that time. Its tokens are on the host: a Sync came before.
  void first_token(std::uint64_t arrival_ns);
  void request_done(std::uint64_t arrival_ns);

  // All passes pooled.
  [[nodiscard]] RequestLatency latency() const;
  // P99 of the pass that began last; 0 without requests.
  [[nodiscard]] double pass_latency_ns_p99() const;

 private:
  struct Clock {
    std::uint64_t host_ns = 0;              // since the pass began, as all of these
    std::uint64_t start_ns = 0;             // of the server
    std::vector<std::uint64_t> streams_ns;  // when each stream's work ends
    void launch(std::uint32_t stream, std::uint64_t duration_ns);
    void synchronize();
    void idle_until(std::uint64_t time_ns);
    // From that time on the server's clock until now; 0 where it is still to come.
    [[nodiscard]] std::uint64_t since(std::uint64_t time_ns) const;
  };
  Clock real_, ideal_;
  std::uint64_t spent_picoseconds_ = 0;
  std::uint64_t rest_picoseconds_ = 0;  // below one ns, not on the clock yet
  // In ns.
  Histogram pass_latency_, latency_;  // of the pass that began last, and of those before it
  Histogram first_token_, ideal_latency_, ideal_first_token_, delay_;
};

}  // namespace allocmark
