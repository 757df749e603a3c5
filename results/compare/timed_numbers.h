// The timed numbers of a cell that two runs are compared by: latencies of the calls as the program
// feels them, of the allocator's own code alone, its time per step, and its first calls. Flows in:
// a cell; flows out: a value per pass, as a logarithm. Neither times nor checks allocators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "results/latency_histogram.h"
#include "results/schema.h"
#include "results/statistics/percentile.h"

namespace allocmark {

enum class TimedKind : std::uint8_t {
  Quantile,  // of a pass's histogram
  Mean,      // of the fastest 99.5 % of it
  Step,      // the allocator's time per step of a pass
  Wall,      // the time of a step of a pass with the program's and the device's work
  Cold,      // the first calls of the process: one value for all passes
  Longest,   // call of a process's passes
  Cpu        // processor time of the thread that replays: the mean of a process's passes
};

struct TimedNumber {
  std::string_view name = {};   // "allocate_own_ns_p99"
  std::string_view shown = {};  // "allocate own P99", to people
  TimedKind kind = TimedKind::Quantile;
  bool allocate = true;
  bool own = false;  // the allocator's own code alone; false: with the driver's time
  Percentile percentile = {};
  // Its floor is the policy's effect_min times this: tails scatter more between rounds.
  double floor_factor = 1;
  // By how much two runs of the same thing differ at most, as a share, where no calibration says.
  double between_runs = 0;
  // Rare calls decide it, which the machine makes as well: called where it is clear, and else said
  // to be the same, so that no further rounds are made for it.
  bool rare = false;
};

// All of them. Those of the driver's time come first.
[[nodiscard]] std::span<const TimedNumber> timed_numbers();
// P50 and P99 of allocate and deallocate with the driver's time, which every version stores.
[[nodiscard]] std::span<const TimedNumber> latency_numbers();
// Null where there is no timed number of that name.
[[nodiscard]] const TimedNumber* find_timed_number(std::string_view name);

// Whether the cell has this number: own code is known apart on a simulated device only; on a GPU
// it is all there is, and its P50 and P99 are the latency's.
[[nodiscard]] bool has_number(const CellResult& cell, const TimedNumber& number);

// A pass's samples of the number's operation; empty for a time of a step.
[[nodiscard]] const LatencyBuckets& buckets_of(const CellResult& cell, const PassSummary& pass,
                                               const TimedNumber& number);

// One value for all passes of a process, whatever their samples; two runs have one process each, so
// that only rounds can tell.
[[nodiscard]] bool is_of_process(const TimedNumber& number);

// Samples that the number needs in what it is taken from: a pass, or all passes of a process.
[[nodiscard]] std::uint64_t samples_wanted(const TimedNumber& number);
[[nodiscard]] std::uint64_t samples_of(const CellResult& cell, const PassSummary& pass,
                                       const TimedNumber& number);

// The number from a histogram, resolved below the clock's step; nothing without samples.
[[nodiscard]] std::optional<double> value_ns(const LatencyBuckets& buckets,
                                             const TimedNumber& number, double clock_step_ns);

// The number of each pass as a logarithm (of a Cold one the process's); empty where some pass has
// none.
[[nodiscard]] std::vector<double> pass_logs(const CellResult& cell, const TimedNumber& number,
                                            double clock_step_ns);

// Over all passes of a process, as a logarithm; nothing where it has none.
[[nodiscard]] std::optional<double> process_log(const CellResult& cell, const TimedNumber& number,
                                                double clock_step_ns);

// As stored for all passes; nothing where the number is not stored.
[[nodiscard]] std::optional<double> stored_value(const CellResult& cell, const TimedNumber& number);

}  // namespace allocmark
