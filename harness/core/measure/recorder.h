// Where timed calls are counted: the duration of every allocate and deallocate flows in, by size
// class and in three parts (total, host, driver); latency summaries flow out after the pass. All
// memory is taken by the constructor; recording takes no lock and allocates nothing. This file
// times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/step_times.h"
#include "harness/core/measure/clock.h"
#include "harness/core/measure/histogram.h"
#include "harness/core/measure/host_scale.h"
#include "harness/core/measure/settled_passes.h"
#include "harness/core/measure/size_class.h"
#include "harness/core/measure/usual_calls.h"
#include "results/schema.h"

namespace allocmark {

enum class Operation : std::uint8_t { Allocate, Deallocate };
inline constexpr std::uint32_t kOperationCount = 2;

struct RecorderOptions {
  TickScale scale;
  bool has_driver_model =
      false;  // simcuda: the driver's time is modelled, and apart from the host's
  std::uint64_t step_count_max = 0;  // steps (Mark events) kept per pass; later ones are left out
};

class Recorder {
 public:
  explicit Recorder(const RecorderOptions& options);

  // One call: host_ticks measured without the simulator's own work, driver_ns modelled.
  void add(Operation operation, std::uint32_t size_class, std::uint64_t host_ticks,
           std::uint64_t driver_ns) {
    const std::uint64_t host_picoseconds = options_.scale.picoseconds(host_ticks);
    Parts& parts = parts_of(operation, size_class);
    parts.host.add(host_picoseconds);
    std::uint64_t total_picoseconds = host_picoseconds;
    if (options_.has_driver_model) {
      total_picoseconds += driver_ns * kPicosecondsPerNs;
      parts.driver.add(driver_ns * kPicosecondsPerNs);
      parts.total.add(total_picoseconds);
    }
    if (host_multiplier_ != 0) {
      scaled_[static_cast<std::uint32_t>(operation)].add(scale(host_picoseconds) +
                                                         driver_ns * kPicosecondsPerNs);
    }
    add_usual(host_ticks, driver_ns);
    if (driver_ns == 0) own_[static_cast<std::uint32_t>(operation)].add(host_picoseconds);
    steps_.total_picoseconds += total_picoseconds;
    driver_ns_total_ += driver_ns;
  }

  // A call of the allocator that has no latency distribution of its own: record_stream, trim, a
  // failed request. It counts in the time per step and in the modelled total.
  void add_other(std::uint64_t host_ticks, std::uint64_t driver_ns) {
    const std::uint64_t host_picoseconds = options_.scale.picoseconds(host_ticks);
    steps_.total_picoseconds += host_picoseconds + driver_ns * kPicosecondsPerNs;
    add_usual(host_ticks, driver_ns);
    driver_ns_total_ += driver_ns;
  }

  // A step begins; the one before it ends. One in which nothing was asked is none.
  void mark() {
    steps_.mark(in_step_);
    if (usual_ != nullptr) parts_of_pass_.mark(in_step_);
    in_step_ = true;
  }

  // The pass is over: the last step ends.
  void end_pass() {
    mark();
    in_step_ = false;
  }

  // From now to clear() samples are also counted with their host part scaled so.
  void scale_host(const HostScale& scale);
  // From now on the pass is also kept in parts, with each call as it usually takes, and a program
  // spends so much. The owner ends its passes; null: calls are as they took.
  void follow(UsualCalls* usual) { usual_ = usual; }
  // Since clear(); the last step has ended with the pass.
  [[nodiscard]] const PassParts& parts() const { return parts_of_pass_; }

  void clear();
  // Adds another recorder's samples, made with the same options.
  void merge(const Recorder& other);

  [[nodiscard]] OperationLatency latency(Operation operation) const;
  [[nodiscard]] OperationLatency latency(Operation operation, std::uint32_t size_class) const;
  // Both operations and all size classes in one distribution of totals.
  [[nodiscard]] LatencySummary latency_all() const;
  // The distribution of one operation's totals, all size classes together.
  [[nodiscard]] LatencyBuckets buckets(Operation operation) const;
  // The distribution of host times of the calls for which the driver had nothing to do; of all
  // calls where those are fewer than half. Empty without a driver model: host time contains it.
  [[nodiscard]] LatencyBuckets own_buckets(Operation operation) const;
  // One operation's totals with scaled host parts; empty where nothing was scaled.
  [[nodiscard]] LatencySummary scaled_latency(Operation operation) const;
  // Those of the passes that were merged.
  [[nodiscard]] const std::vector<HostScale>& host_scales() const { return host_scales_; }
  // The allocator's time in one step, in ns, as StepTimes has it; 0 without steps.
  [[nodiscard]] double step_ns_median() const;
  [[nodiscard]] std::uint64_t driver_ns_total() const { return driver_ns_total_; }
  // The allocator's time since clear(), of all calls, as a program spends it: scaled and as they
  // usually take, where that is known.
  [[nodiscard]] std::uint64_t program_picoseconds() const { return program_picoseconds_; }

 private:
  // A factor of 1 is 2^16; a host part below 2^47 ps (140 s) does not overflow at factors to 2.
  static constexpr std::uint32_t kHostScaleBits = 16;

  struct Parts {
    Histogram total, host,
        driver;  // without a driver model only host is filled, and total equals it
  };
  Parts& parts_of(Operation operation, std::uint32_t size_class) {
    return parts_[static_cast<std::uint32_t>(operation) * kSizeClassCount + size_class];
  }
  [[nodiscard]] const Parts& parts_of(Operation operation, std::uint32_t size_class) const {
    return parts_[static_cast<std::uint32_t>(operation) * kSizeClassCount + size_class];
  }
  // The time of all calls since clear(), and what of it each step took.
  struct Steps {
    StepTimes picoseconds;
    std::uint64_t total_picoseconds = 0, begin_picoseconds = 0;

    void mark(bool ends_step) {
      if (ends_step && total_picoseconds > begin_picoseconds) {
        picoseconds.add(total_picoseconds - begin_picoseconds);
      }
      begin_picoseconds = total_picoseconds;
    }
    void clear() {
      picoseconds.clear();
      total_picoseconds = begin_picoseconds = 0;
    }
  };
  // A call in the times that do not follow the host's load.
  void add_usual(std::uint64_t host_ticks, std::uint64_t driver_ns) {
    std::uint64_t usual_ticks = host_ticks;
    if (usual_ != nullptr) {
      usual_ticks = usual_->usual_ticks(host_ticks);
      parts_of_pass_.add(usual_ticks, driver_ns);
    }
    const std::uint64_t host_picoseconds = options_.scale.picoseconds(usual_ticks);
    program_picoseconds_ += (host_multiplier_ != 0 ? scale(host_picoseconds) : host_picoseconds) +
                            driver_ns * kPicosecondsPerNs;
  }
  [[nodiscard]] OperationLatency summarise(const Parts& parts) const;
  [[nodiscard]] std::uint64_t scale(std::uint64_t host_picoseconds) {
    const std::uint64_t spread_picoseconds =
        host_picoseconds + random_.below(clock_step_picoseconds_ + 1);
    const std::uint64_t work_picoseconds =
        spread_picoseconds -
        std::min(spread_picoseconds, clock_picoseconds_ + clock_step_picoseconds_ / 2);
    return ((work_picoseconds * host_multiplier_) >> kHostScaleBits) + target_clock_picoseconds_;
  }

  RecorderOptions options_;
  std::vector<Parts> parts_;
  std::vector<Histogram> own_;     // by operation: host time of calls without driver time
  std::vector<Histogram> scaled_;  // by operation: totals with scaled host parts
  std::vector<HostScale> host_scales_;
  std::uint64_t host_multiplier_ = 0;
  std::uint64_t clock_picoseconds_ = 0, target_clock_picoseconds_ = 0, clock_step_picoseconds_ = 0;
  Random random_{1};
  UsualCalls* usual_ = nullptr;
  PassParts parts_of_pass_;
  std::uint64_t program_picoseconds_ = 0;
  Steps steps_;
  std::uint64_t driver_ns_total_ = 0;
  bool in_step_ = false;
};

// The quantiles of a histogram of picoseconds, in ns.
[[nodiscard]] LatencySummary summarise_picoseconds(const Histogram& histogram);

}  // namespace allocmark
