#include "harness/simcuda/shim/cost.h"

#include <algorithm>
#include <bit>

namespace simcuda {
namespace {

// Quantiles are kept at the tail probabilities 1/2, 1/4, 1/8, ...: entry k is the quantile 1 -
// 2^-(k+1).
constexpr std::size_t kTailSteps = 16;
constexpr std::uint32_t kFractionBits = 16;

struct Curve {
  std::vector<std::uint64_t> log_sizes;  // log2 of the sizes, fixed point
  std::vector<std::array<std::uint64_t, kTailSteps>> quantiles_ns;
};

std::array<Curve, kCostCount>& curves() {
  static std::array<Curve, kCostCount> all;
  return all;
}

constexpr std::array<std::string_view, kCostCount> kNames = {
    "cudaMalloc",
    "cudaMalloc.slab",
    "cudaMalloc.out_of_memory",
    "cudaFree",
    "cudaFree.slab",
    "cudaMallocAsync",
    "cudaMallocAsync.chunks",
    "cudaFreeAsync",
    "release.chunks",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cudaEventCreate",
    "cudaEventDestroy",
    "cudaEventRecord",
    "cudaEventQuery",
    "cudaEventQuery.not_ready",
    "cudaStreamQuery",
    "cudaStreamQuery.not_ready",
    "cudaStreamWaitEvent",
    "cudaStreamCreate",
    "cudaStreamDestroy",
    "launch",
    "cudaMemGetInfo",
    "cudaMemsetAsync",
    "cudaMemcpy.host_to_device",
    "cudaMemcpy.device_to_host",
    "cudaMemcpy.on_device",
    "cudaMemset.on_device",
    "cudaMallocHost",
    "cudaFreeHost",
    "cudaGetDevice",
    "cudaSetDevice",
    "cudaGetLastError",
    "cudaGetDeviceProperties",
    "cudaDeviceGetAttribute",
    "cudaPointerGetAttributes",
    "cudaMemPoolGetAttribute",
    "cudaMemPoolSetAttribute",
    "cudaMemPoolTrimTo",
    "cudaMemPoolCreate",
    "cudaMemPoolDestroy",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
};

// log2 with 16 fraction bits, linear within an octave: monotone, and exact at powers of two.
std::uint64_t log2_fixed(std::uint64_t value) {
  value = std::max<std::uint64_t>(value, 1);
  const std::uint32_t exponent = static_cast<std::uint32_t>(std::bit_width(value)) - 1;
  const std::uint64_t mantissa = value - (std::uint64_t{1} << exponent);
  const std::uint64_t fraction = exponent >= kFractionBits ? mantissa >> (exponent - kFractionBits)
                                                           : mantissa << (kFractionBits - exponent);
  return (std::uint64_t{exponent} << kFractionBits) + fraction;
}

// Between two values, weight in units of 2^-16.
std::uint64_t blend(std::uint64_t from, std::uint64_t to, std::uint64_t weight) {
  if (to >= from) {
    return from + (((to - from) * weight) >> kFractionBits);
  }
  return from - (((from - to) * weight) >> kFractionBits);
}

// The quantiles of a row at the tail steps. Measured points lie at log2(1 / (1 - q)); between them
// values are interpolated linearly, which is an exponential tail; beyond the largest sample they
// stay at it.
std::array<std::uint64_t, kTailSteps> tail_table(const CostRow& row) {
  struct Point {
    std::uint64_t log_tail;
    std::uint64_t value_ns;
  };
  constexpr std::uint64_t kLog10 = 217706;   // log2(10) * 65536
  constexpr std::uint64_t kLog100 = 435412;  // log2(100) * 65536
  std::vector<Point> points = {{std::uint64_t{1} << kFractionBits, row.p50_ns}};
  const std::uint64_t log_max = log2_fixed(row.sample_count);
  if (log_max > kLog10) {
    points.push_back({kLog10, row.p90_ns});
  }
  if (log_max > kLog100) {
    points.push_back({kLog100, row.p99_ns});
  }
  if (log_max > points.back().log_tail) {
    points.push_back({log_max, row.max_ns});
  }
  std::array<std::uint64_t, kTailSteps> table{};
  std::size_t next = 1;
  for (std::size_t step = 0; step < kTailSteps; ++step) {
    const std::uint64_t at = std::uint64_t{step + 1} << kFractionBits;
    while (next < points.size() && points[next].log_tail < at) {
      ++next;
    }
    if (next == points.size()) {
      table[step] = points.back().value_ns;
      continue;
    }
    const Point& low = points[next - 1];
    const Point& high = points[next];
    table[step] = blend(low.value_ns, high.value_ns,
                        ((at - low.log_tail) << kFractionBits) / (high.log_tail - low.log_tail));
  }
  return table;
}

std::uint64_t quantile(const Curve& curve, std::uint64_t size, std::uint32_t step,
                       std::uint64_t weight) {
  const std::size_t next_step = std::min<std::size_t>(step + 1, kTailSteps - 1);
  const auto value = [&](std::size_t row) {
    return blend(curve.quantiles_ns[row][step], curve.quantiles_ns[row][next_step], weight);
  };
  const std::size_t row_count = curve.log_sizes.size();
  if (row_count == 1) {
    return value(0);
  }
  const std::uint64_t log_size = log2_fixed(size);
  const auto above = std::upper_bound(curve.log_sizes.begin(), curve.log_sizes.end(), log_size);
  if (above == curve.log_sizes.begin()) {
    return value(0);
  }
  if (above == curve.log_sizes.end()) {
    return value(row_count - 1);
  }
  const std::size_t high = static_cast<std::size_t>(above - curve.log_sizes.begin());
  const std::uint64_t low_log = curve.log_sizes[high - 1];
  return blend(value(high - 1), value(high),
               ((log_size - low_log) << kFractionBits) / (curve.log_sizes[high] - low_log));
}

// SplitMix64's output function over (cost, thread, draw): a random number that needs no state.
std::uint64_t random_bits(CostId cost, std::uint32_t thread, std::uint32_t draw) {
  std::uint64_t z = (std::uint64_t{draw} << 32 | thread) * 0x9E3779B97F4A7C15u;
  z += (static_cast<std::uint64_t>(cost) + 1) * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

std::string_view cost_name(CostId cost) { return kNames[static_cast<std::size_t>(cost)]; }

void set_cost_curve(CostId cost, const std::vector<CostRow>& rows) {
  Curve& curve = curves()[static_cast<std::size_t>(cost)];
  curve = {};
  for (const CostRow& row : rows) {
    curve.log_sizes.push_back(log2_fixed(row.size));
    curve.quantiles_ns.push_back(tail_table(row));
  }
}

std::uint64_t sample_cost(CostId cost, std::uint64_t size, std::uint32_t thread,
                          std::uint32_t draw) {
  const Curve& curve = curves()[static_cast<std::size_t>(cost)];
  const std::uint64_t bits = random_bits(cost, thread, draw);
  // Leading ones: none in half of the draws, one in a quarter, ... The recordings say nothing about
  // the half below the median, so the first case is the median itself.
  const std::uint32_t ones = static_cast<std::uint32_t>(std::countl_one(bits));
  if (ones == 0) {
    return quantile(curve, size, 0, 0);
  }
  const std::uint32_t step = std::min<std::uint32_t>(ones - 1, kTailSteps - 1);
  return quantile(curve, size, step, bits & 0xFFFF);
}

std::uint64_t median_cost(CostId cost, std::uint64_t size) {
  return quantile(curves()[static_cast<std::size_t>(cost)], size, 0, 0);
}

}  // namespace simcuda
