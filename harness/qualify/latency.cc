// Test "latency": the times of driver calls, one process, one thread, an idle GPU, call by call and
// size by size, against what many machines of the kind take, where that is known, else against the
// profile of one machine with such a GPU. This file times.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "harness/qualify/call_clock.h"
#include "harness/qualify/gpu_facts.h"
#include "harness/qualify/mapping_calls.h"
#include "harness/qualify/repeat.h"
#include "harness/qualify/tests.h"
#include "harness/replay/ballast.h"
#include "harness/replay/capacity.h"

namespace allocmark::qualify {
namespace {

constexpr std::uint64_t kLargeBytes = 512 * kMiB;  // from here on fewer samples will do
constexpr std::uint64_t kSizeBytesMax = 4 * kGiB;
constexpr int kSampleCount = 200;
constexpr int kSampleCountLarge = 20;
// A median of fewer samples says too little, and so does a P90 of fewer than 100. Higher quantiles
// hang on single calls, of which some take a hundred times as long on any machine.
constexpr std::uint64_t kMedianSamplesMin = 20;
constexpr std::uint64_t kP90SamplesMin = 100;
// Shorter calls are within reach of the clock's own steps.
constexpr double kBaselineNsMin = 100;

using Samples = std::map<std::pair<std::string, std::uint64_t>, CallSamples>;

int sample_count(std::uint64_t size_bytes) {
  return size_bytes >= kLargeBytes ? kSampleCountLarge : kSampleCount;
}

class Measurement {
 public:
  Measurement(const CallClock& clock, Samples& samples) : clock_(clock), samples_(samples) {}

  template <typename Call>
  void time(const char* name, std::uint64_t size_bytes, Call&& call) {
    samples_[{name, size_bytes}].add(clock_.time(call));
  }

 private:
  const CallClock& clock_;
  Samples& samples_;
};

void measure_malloc(Measurement& m, std::uint64_t size_bytes, const char* malloc_name,
                    const char* free_name) {
  // Small blocks come from a slab, which is there already because of this one.
  void* kept = nullptr;
  const bool slab = size_bytes < kDevicePageBytes;
  if (slab) ALLOCMARK_CUDA_CHECK(cudaMalloc(&kept, size_bytes));
  for (int i = 0; i < sample_count(size_bytes); ++i) {
    void* pointer = nullptr;
    const std::uint64_t key = slab ? 0 : size_bytes;
    m.time(malloc_name, key, [&] { ALLOCMARK_CUDA_CHECK(cudaMalloc(&pointer, size_bytes)); });
    m.time(free_name, key, [&] { ALLOCMARK_CUDA_CHECK(cudaFree(pointer)); });
  }
  if (slab) ALLOCMARK_CUDA_CHECK(cudaFree(kept));
}

// From memory that the pool has already: a pool of our own that keeps it.
void measure_pool(Measurement& m) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&properties.location.id));
  cudaMemPool_t pool = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
  std::uint64_t keep_bytes = UINT64_MAX;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_bytes));
  for (int i = 0; i <= kSampleCount; ++i) {
    void* pointer = nullptr;
    const auto allocate = [&] {
      ALLOCMARK_CUDA_CHECK(cudaMallocFromPoolAsync(&pointer, kMiB, pool, nullptr));
    };
    const auto free = [&] { ALLOCMARK_CUDA_CHECK(cudaFreeAsync(pointer, nullptr)); };
    if (i == 0) {
      allocate();
      free();
      ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
      continue;
    }
    m.time("cudaMallocAsync", 0, allocate);
    m.time("cudaFreeAsync", 0, free);
  }
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  ALLOCMARK_CUDA_CHECK(cudaMemPoolDestroy(pool));
}

void measure_mapping(Measurement& m, const MappingCalls& calls, std::uint64_t size_bytes) {
  for (int i = 0; i < sample_count(size_bytes); ++i) {
    MappedPages pages{.size_bytes = size_bytes};
    m.time("cuMemAddressReserve", size_bytes, [&] { calls.reserve(pages); });
    m.time("cuMemCreate", size_bytes, [&] { calls.create(pages); });
    m.time("cuMemMap", size_bytes, [&] { calls.map(pages); });
    m.time("cuMemSetAccess", size_bytes, [&] { calls.set_access(pages); });
    m.time("cuMemUnmap", size_bytes, [&] { calls.unmap(pages); });
    m.time("cuMemRelease", size_bytes, [&] { calls.release(pages); });
    m.time("cuMemAddressFree", size_bytes, [&] { calls.free_address(pages); });
  }
}

void measure_streams(Measurement& m) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < kSampleCount; ++i) {
    m.time("cudaEventRecord", 0, [&] { ALLOCMARK_CUDA_CHECK(cudaEventRecord(event, stream)); });
    ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream));
    m.time("cudaEventQuery", 0, [&] { ALLOCMARK_CUDA_CHECK(cudaEventQuery(event)); });
    m.time("cudaStreamWaitEvent", 0,
           [&] { ALLOCMARK_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0)); });
    ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream));
    m.time("cudaStreamSynchronize", 0,
           [&] { ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream)); });
    m.time("cudaDeviceSynchronize", 0, [&] { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); });
    m.time("cudaMemGetInfo", 0, [&] { (void)device_free_bytes(); });
  }
  ALLOCMARK_CUDA_CHECK(cudaEventDestroy(event));
  ALLOCMARK_CUDA_CHECK(cudaStreamDestroy(stream));
}

// The sizes that the baseline has for a call; some that say enough where there is none.
std::vector<std::uint64_t> sizes_of(const std::optional<Baseline>& baseline, const char* call) {
  std::vector<std::uint64_t> sizes = {2 * kMiB, 20 * kMiB, 192 * kMiB, kGiB};
  if (baseline) {
    sizes.clear();
    const auto found = baseline->rows.find(call);
    if (found == baseline->rows.end()) return sizes;
    for (const BaselineRow& row : found->second) sizes.push_back(row.size_bytes);
  }
  const std::uint64_t size_bytes_max = std::min(kSizeBytesMax, device_free_bytes() / 4);
  std::erase_if(sizes, [&](std::uint64_t size_bytes) {
    return size_bytes < kDevicePageBytes || size_bytes > size_bytes_max;
  });
  return sizes;
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

// Rows of calls that a slab serves are by the number of such calls in a row, and we make many.
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
  const CallClock clock(SimcuApi::find());
  Samples samples;
  Measurement m(clock, samples);
  const std::optional<MappingCalls> mapping = MappingCalls::find();
  for (Rounds rounds(context.spec.seconds); rounds.next();) {
    measure_malloc(m, 512, "cudaMalloc.slab", "cudaFree.slab");
    for (const std::uint64_t size_bytes : sizes_of(references.profile, "cudaMalloc")) {
      measure_malloc(m, size_bytes, "cudaMalloc", "cudaFree");
    }
    measure_pool(m);
    if (mapping) {
      for (const std::uint64_t size_bytes : sizes_of(references.profile, "cuMemCreate")) {
        measure_mapping(m, *mapping, size_bytes);
      }
    }
    measure_streams(m);
  }
  compare(references, samples, answer);
  compare_with_beginning(samples, answer);
  return answer;
}

}  // namespace allocmark::qualify
