// Test "latency": the times of driver calls, one process, one thread, an idle GPU, call by call and
// size by size, against what many machines of the kind take, where that is known, else against the
// profile of one machine with such a GPU. The calls are made as 'allocmark profile' makes them: in
// a loop of their own some take up to thirty times as long on a healthy GPU (cuMemSetAccess of
// 2 MiB, one range after the other). This file times.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "harness/measure/clock.h"
#include "harness/profile/blocks.h"
#include "harness/qualify/call_clock.h"
#include "harness/qualify/gpu_facts.h"
#include "harness/qualify/repeat.h"
#include "harness/qualify/tests.h"
#include "harness/replay/ballast.h"
#include "harness/replay/device_work.h"

namespace allocmark::qualify {
namespace {

// A median of fewer samples says too little, and so does a P90 of fewer than 100. Higher quantiles
// hang on single calls, of which some take a hundred times as long on any machine.
constexpr std::uint64_t kMedianSamplesMin = 20;
constexpr std::uint64_t kP90SamplesMin = 100;
// Shorter calls are within reach of the clock's own steps.
constexpr double kBaselineNsMin = 100;

// The calls that are judged: those that take and give back memory, and those that order work.
// Reserving addresses is the host's kernel at work, not the GPU: on healthy machines it took ten
// times as long in one process as in another.
constexpr std::array<std::string_view, 17> kJudgedCalls = {
    "cuMemCreate",        "cuMemMap",        "cuMemRelease",          "cuMemSetAccess",
    "cuMemUnmap",         "cudaEventQuery",  "cudaDeviceSynchronize", "cudaEventRecord",
    "cudaFree",           "cudaFree.slab",   "cudaFreeAsync",         "cudaMalloc",
    "cudaMalloc.slab",    "cudaMallocAsync", "cudaMemGetInfo",        "cudaStreamSynchronize",
    "cudaStreamWaitEvent"};

// By call and size.
using Samples = std::map<std::pair<std::string, std::uint64_t>, CallSamples>;

// The blocks of a profile that make those calls, on a device that is otherwise empty.
constexpr std::array kBlocks = {measure_quick_calls, measure_heap, measure_large_blocks,
                                measure_pool, measure_virtual_memory};

// So often in a round of the test: once gives rare calls fewer samples than a median needs.
constexpr std::uint64_t kRepeatCount = 2;
// Which of the calls in a row it is that a slab serves makes little difference from here on.
constexpr std::uint64_t kSlabCallsMin = 8;

// One round of all blocks. Where a call's time depends on what is in use, the samples of the least
// count, as those of a baseline do.
void measure_round(const DriverTimer& timer, DeviceWork& work, std::uint64_t round,
                   Samples& samples) {
  ProfileRecording recording;
  const std::uint64_t device_bytes = device_free_bytes();
  for (const auto& block : kBlocks) {
    block({.time = timer,
           .work = work,
           .out = recording,
           .seed = round,
           .device_bytes = device_bytes});
  }
  for (const std::string_view call : kJudgedCalls) {
    const bool slab = call.ends_with(".slab");
    recording.at_lowest_level(call, [&](std::uint64_t size, std::uint64_t duration_ns) {
      if (slab && size < kSlabCallsMin) return;
      samples[{std::string(call), slab ? 0 : size}].add(static_cast<double>(duration_ns));
    });
  }
}

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
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const BaselineRow& row) {
    return row.size_bytes == size_bytes;
  });
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
};
constexpr Quantile kMedian{0.5, "P50", "latency.p50_ratio", "latency.p50_beyond_spread"};
constexpr Quantile kP90{0.9, "P90", "latency.p90_ratio", "latency.p90_beyond_spread"};

// Against the machines of its kind, else against the profile; else only told.
Figure judged_figure(const References& references, const std::string& name, double ns,
                     const Quantile& quantile, double profile_ns) {
  if (references.spread) {
    const auto row = references.spread->rows.find(name);
    if (row != references.spread->rows.end() && row->second.machine_count >= kSpreadMachinesMin) {
      return {.name = name,
              .threshold = quantile.spread_threshold,
              .value = ns / (row->second.slowest_ns * spread_allowance(row->second.machine_count)),
              .measured_ns = ns,
              .note = fmt::format("{}; {} machines: median {}, slowest {}", ns_text(ns),
                                  row->second.machine_count, ns_text(row->second.median_ns),
                                  ns_text(row->second.slowest_ns))};
    }
  }
  if (profile_ns > 0) return ratio_figure(name, quantile.profile_threshold, ns, profile_ns);
  return {.name = name, .threshold = "", .value = ns, .measured_ns = ns, .note = "ns, not judged"};
}

void compare(const References& references, Samples& samples, TestAnswer& answer) {
  for (auto& [key, measured] : samples) {
    if (measured.count() < kMedianSamplesMin) continue;
    const auto& [call, size_bytes] = key;
    const BaselineRow* row = nullptr;
    if (references.profile) {
      const auto rows = references.profile->rows.find(call);
      if (rows == references.profile->rows.end()) continue;
      row = find_row(rows->second, call, size_bytes);
      if (row == nullptr || row->sample_count < kMedianSamplesMin || row->p50_ns < kBaselineNsMin) {
        continue;
      }
    }
    const std::string name = size_bytes == 0 ? call : call + " " + format_bytes(size_bytes);
    const auto add = [&](const Quantile& quantile, double profile_ns) {
      answer.figures.push_back(judged_figure(references, fmt::format("{}, {}", name, quantile.name),
                                             measured.quantile(quantile.q), quantile, profile_ns));
    };
    add(kMedian, row == nullptr ? 0 : row->p50_ns);
    if (measured.count() < kP90SamplesMin) continue;
    if (row != nullptr && row->sample_count < kP90SamplesMin) continue;
    add(kP90, row == nullptr ? 0 : row->p90_ns);
  }
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
    answer.skip = "measured, not judged: there is no baseline for " + gpu_name(context.spec.gpu) +
                  "; --baseline FILE names one";
  }
  const SimcuApi simcu = SimcuApi::find();
  TickClock clock;
  clock.finish_calibration();
  const DriverTimer timer(clock, simcu.present ? simcu.thread_clock() : nullptr);
  const std::unique_ptr<DeviceWork> work = make_device_work(simcu);
  // The first round brings code and tables in; its samples are dropped.
  Samples warm_up;
  measure_round(timer, *work, 0, warm_up);
  Samples samples;
  for (Rounds rounds(context.spec.seconds); rounds.next();) {
    for (std::uint64_t i = 0; i < kRepeatCount; ++i) {
      measure_round(timer, *work, kRepeatCount * rounds.count() + i, samples);
    }
  }
  compare(references, samples, answer);
  compare_with_beginning(samples, answer);
  return answer;
}

}  // namespace allocmark::qualify
