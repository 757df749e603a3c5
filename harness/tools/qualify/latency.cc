// Test "latency": the times of driver calls, one process, one thread, an idle GPU, call by call and
// size by size, against what many machines of the kind take, where that is known, else against the
// profile of one machine with such a GPU. The calls are made as 'allocmark profile' makes them: in
// a loop of their own some take up to thirty times as long on a healthy GPU (cuMemSetAccess of
// 2 MiB, one range after the other). This file times.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "harness/core/measure/clock.h"
#include "harness/core/profile/blocks.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/device_work.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/latency_round.h"
#include "harness/tools/qualify/repeat.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

// A median of fewer samples says too little, and so does a P90 of fewer than 100. Higher quantiles
// hang on single calls, of which some take a hundred times as long on any machine.
constexpr std::uint64_t kMedianSamplesMin = 20;
constexpr std::uint64_t kP90SamplesMin = 100;
// Shorter calls are within reach of the clock's own steps.
constexpr double kBaselineNsMin = 100;

std::string ns_text(double ns) {
  return ns < 10'000 ? fmt::format("{:.0f} ns", ns) : fmt::format("{:.1f} us", ns / 1000);
}

Figure ratio_figure(const std::string& name, const char* threshold, double ns, double baseline_ns) {
  return {.name = name,
          .threshold = threshold,
          .value = ns / baseline_ns,
          .measured_ns = ns,
          .note = fmt::format("{}, baseline {}", ns_text(ns), ns_text(baseline_ns))};
}

// Rows of calls that a slab serves are by the number of such calls in a row; the last is ours.
const BaselineRow* find_row(const std::vector<BaselineRow>& rows, const std::string& call,
                            std::uint64_t size_bytes) {
  if (call.ends_with(".slab")) return rows.empty() ? nullptr : &rows.back();
  const auto found = std::ranges::find_if(
      rows, [&](const BaselineRow& row) { return row.size_bytes == size_bytes; });
  return found == rows.end() ? nullptr : &*found;
}

// What calls should take, as far as that is known.
struct References {
  std::optional<Baseline> profile;
  std::optional<Spread> spread;
};

struct Quantile {
  double q;
  const char *name, *profile_threshold, *spread_threshold;
  std::uint64_t sample_count_min;
};
constexpr Quantile kMedian{0.5, "P50", "latency.p50_ratio", "latency.p50_beyond_spread",
                           kMedianSamplesMin};
constexpr Quantile kP90{0.9, "P90", "latency.p90_ratio", "latency.p90_beyond_spread",
                        kP90SamplesMin};

// A time that is to be judged: a quantile of the samples of one call and size.
struct Time {
  std::string call;
  std::uint64_t size_bytes;
  std::string name;  // "cudaMalloc 2.00 MiB, P50"
  double ns;
  const Quantile& quantile;
};

std::string name_of(const std::string& call, std::uint64_t size) {
  if (size == 0) return call;
  if (call.ends_with(".chunks")) return fmt::format("{} of {}", call, size);
  return call + " " + format_bytes(size);
}

Figure reported_figure(const std::string& name, double ns, const std::string& why) {
  return {.name = name, .value = ns, .note = fmt::format("ns; {}: {}", kOnlyReported, why)};
}

// Against the machines of its kind; nothing where too few are known.
std::optional<Figure> spread_figure(const std::optional<Spread>& spread, const Time& time) {
  if (!spread) return std::nullopt;
  const auto found = spread->rows.find(time.name);
  if (found == spread->rows.end()) return std::nullopt;
  const SpreadRow& row = found->second;
  if (row.machine_count < kSpreadMachinesMin || row.median_ns < kBaselineNsMin) return std::nullopt;
  return Figure{
      .name = time.name,
      .threshold = time.quantile.spread_threshold,
      .value = time.ns / (row.slowest_ns * spread_allowance(row.machine_count)),
      .measured_ns = time.ns,
      .note = fmt::format("{}; {} machines: median {}, slowest {}", ns_text(time.ns),
                          row.machine_count, ns_text(row.median_ns), ns_text(row.slowest_ns))};
}

// Against the profile, else only reported, with the reason.
Figure profile_figure(const std::optional<Baseline>& profile, const Time& time) {
  const auto reported = [&](const std::string& why, bool is_comparable) {
    Figure figure = reported_figure(time.name, time.ns, why);
    // Machines can still be held against each other by it (harness/tools/qualify/fleet).
    if (is_comparable) figure.measured_ns = time.ns;
    return figure;
  };
  if (!profile) return reported("no baseline has it", true);
  const auto rows = profile->rows.find(time.call);
  if (rows == profile->rows.end()) return reported("the baseline does not have it", true);
  const BaselineRow* const row = find_row(rows->second, time.call, time.size_bytes);
  if (row == nullptr) return reported("the baseline does not have this size", true);
  if (row->sample_count < time.quantile.sample_count_min) {
    return reported(fmt::format("the baseline has {} samples, {} wants {}", row->sample_count,
                                time.quantile.name, time.quantile.sample_count_min),
                    true);
  }
  if (row->p50_ns < kBaselineNsMin) {
    return reported(fmt::format("below {} ns the clock's steps show", kBaselineNsMin), false);
  }
  const bool is_median = time.quantile.q == kMedian.q;
  return ratio_figure(time.name, time.quantile.profile_threshold, time.ns,
                      is_median ? row->p50_ns : row->p90_ns);
}

// Every call and size that was measured gives a figure: judged, or reported and called so.
void compare(const References& references, Measured& measured, TestAnswer& answer) {
  std::vector<Figure> reported;
  for (auto& [key, samples] : measured.judged) {
    const auto& [call, size_bytes] = key;
    const std::string name = name_of(call, size_bytes);
    for (const Quantile& quantile : {kMedian, kP90}) {
      const Time time{.call = call,
                      .size_bytes = size_bytes,
                      .name = fmt::format("{}, {}", name, quantile.name),
                      .ns = samples.quantile(quantile.q),
                      .quantile = quantile};
      if (samples.count() < quantile.sample_count_min) {
        reported.push_back(reported_figure(time.name, time.ns,
                                           fmt::format("{} samples, {} wants {}", samples.count(),
                                                       quantile.name, quantile.sample_count_min)));
        break;  // a P90 wants more than a median
      }
      const std::optional<Figure> by_many = spread_figure(references.spread, time);
      Figure figure = by_many ? *by_many : profile_figure(references.profile, time);
      (figure.threshold.empty() ? reported : answer.figures).push_back(std::move(figure));
    }
  }
  for (auto& [key, samples] : measured.reported) {
    reported.push_back(reported_figure(name_of(key.first, key.second) + ", P50",
                                       samples.quantile(kMedian.q), "it comes between the others"));
  }
  std::ranges::move(reported, std::back_inserter(answer.figures));
}

// Which machines the calls are held against.
void name_references(const TestContext& context, const References& references, TestAnswer& answer) {
  if (references.spread) {
    const std::uint64_t count = references.spread->machine_count;
    answer.figures.push_back(
        {.name = "machines that calls are held against",
         .value = static_cast<double>(count),
         .note = fmt::format("the slowest of them, times {:.3g}", spread_allowance(count))});
  }
  if (!references.profile) return;
  const int baseline_count = references.profile->machine_gpu_count;
  const int own_count = machine_gpu_count(context);
  std::string note = references.profile->path;
  note.erase(0, note.rfind('/') + 1);  // npos + 1 is 0
  if (context.simulated) {
    note += fmt::format("; the simulated GPU's own profile says {}", own_count);
  } else {
    note += fmt::format("; this machine has {}", own_count);
  }
  if (baseline_count != own_count) note += ", and no nearer baseline is used";
  answer.figures.push_back({.name = "GPUs of the baseline's machine",
                            .value = static_cast<double>(baseline_count),
                            .note = note});
}

// Whether calls took longer at the end of a long level than at its beginning: the geometric mean
// over all calls, since single ones wander.
void compare_with_beginning(const Samples& samples, TestAnswer& answer) {
  double log_sum = 0;
  std::size_t count = 0;
  for (const auto& [key, measured] : samples) {
    const std::optional<double> drift = measured.drift();
    if (!drift || *drift <= 0) continue;
    log_sum += std::log(*drift);
    ++count;
  }
  if (count == 0) return;  // a short level
  answer.figures.push_back({.name = "drift of all calls",
                            .threshold = "latency.drift",
                            .value = std::exp(log_sum / static_cast<double>(count)),
                            .note = fmt::format("{} calls", count)});
}

}  // namespace

TestAnswer run_latency(const TestContext& context) {
  TestAnswer answer;
  const References references{.profile = baseline_for(context), .spread = spread_for(context)};
  if (!references.profile && !references.spread) {
    answer.skip =
        fmt::format("{}{}; --baseline FILE names one", kNoBaseline, gpu_name(context.spec.gpu));
  }
  const SimcuApi simcu = SimcuApi::find();
  TickClock clock;
  clock.finish_calibration();
  const DriverTimer timer(clock, simcu.present ? simcu.thread_clock() : nullptr);
  const std::unique_ptr<DeviceWork> work = make_device_work(simcu);
  const RoundSetup setup{.time = timer,
                         .work = *work,
                         .device_bytes = device_free_bytes(),
                         .with_gibibytes = context.spec.seconds > 0};
  warm_up(setup);
  Measured measured;
  for (Rounds rounds(context.spec.seconds); rounds.next();) {
    measure_round(setup, rounds.count(), measured);
  }
  name_references(context, references, answer);
  compare(references, measured, answer);
  compare_with_beginning(measured.judged, answer);
  return answer;
}

}  // namespace allocmark::qualify
