#include "harness/simcuda/shim/cost.h"

#include <algorithm>
#include <bit>

namespace simcuda {
namespace {

constexpr std::uint32_t kFractionBits = 16;
constexpr std::uint64_t kOne = std::uint64_t{1} << kFractionBits;

// Where a quantile lies in the tail: k + f (fixed point) for the tail probability 2^-k * (1 - f /
// 2), so that a random number's leading ones and the bits behind them give a position without a
// logarithm.
constexpr std::uint64_t kPosition50 = kOne;              // 1
constexpr std::uint64_t kPosition90 = kOne * 340 / 100;  // 1/10 = 2^-3 * (1 - 0.4 / 2)
constexpr std::uint64_t kPosition99 = kOne * 672 / 100;  // 1/100 = 2^-6 * (1 - 0.72 / 2)
constexpr std::size_t kPointCountMax = 4;

// A measured quantile: between two of them values are interpolated, which is nearly an exponential
// tail.
struct Point {
  std::uint64_t position = 0;
  std::uint64_t gap_inverse = 0;  // 2^32 / distance to the next point
  std::uint64_t value_ns = 0;
};

// One row of a curve, ready for sampling.
struct Row {
  std::uint64_t size = 0;
  std::uint64_t log_size = 0;         // log2 of the size, fixed point
  std::uint64_t log_gap_inverse = 0;  // 2^32 / (distance to the next row's log_size)
  std::array<Point, kPointCountMax> points{};
  std::size_t point_count = 0;
};
// Sixteen rows are enough for any recording; fixed so that sampling touches no heap.
constexpr std::size_t kRowCountMax = 16;
struct Curve {
  std::array<Row, kRowCountMax> rows{};
  std::size_t row_count = 0;
};
constinit std::array<Curve, kCostCount> curves{};  // written once, before the first sample

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

// The position of the largest of n samples: tail probability 1 / n.
std::uint64_t position_of_largest(std::uint64_t sample_count) {
  const std::uint64_t octave = static_cast<std::uint64_t>(std::bit_width(sample_count)) - 1;
  return (octave << kFractionBits) + 2 * (kOne - (kOne << octave) / sample_count);
}

void add_point(Row& row, std::uint64_t position, std::uint64_t value_ns) {
  if (row.point_count != 0) {
    Point& before = row.points[row.point_count - 1];
    if (position <= before.position) {
      return;  // too few samples to tell this quantile from the one before
    }
    before.gap_inverse = (std::uint64_t{1} << 32) / (position - before.position);
  }
  row.points[row.point_count++] = {.position = position, .value_ns = value_ns};
}

// A percentile counts only where there were enough samples for it; beyond the largest sample the
// value stays.
Row make_row(const CostRow& recorded) {
  Row row;
  row.size = recorded.size;
  row.log_size = log2_fixed(recorded.size);
  const std::uint64_t largest = position_of_largest(recorded.sample_count);
  add_point(row, kPosition50, recorded.p50_ns);
  if (largest > kPosition90) {
    add_point(row, kPosition90, recorded.p90_ns);
  }
  if (largest > kPosition99) {
    add_point(row, kPosition99, recorded.p99_ns);
  }
  add_point(row, largest, recorded.max_ns);
  return row;
}

std::uint64_t value_at(const Row& row, std::uint64_t position) {
  std::size_t above = 1;
  while (above < row.point_count && row.points[above].position <= position) {
    ++above;
  }
  const Point& low = row.points[above - 1];
  if (above == row.point_count) {
    return low.value_ns;
  }
  return blend(low.value_ns, row.points[above].value_ns,
               ((position - low.position) * low.gap_inverse) >> (32 - kFractionBits));
}

// Larger than anything recorded: in proportion to the size, as the largest rows of all recordings
// nearly are.
std::uint64_t beyond_last(std::uint64_t value_ns, std::uint64_t size, const Row& last) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{value_ns} * size / std::max<std::uint64_t>(last.size, 1));
}

std::uint64_t curve_value(const Curve& curve, std::uint64_t size, std::uint64_t position) {
  if (curve.row_count == 1) {
    return value_at(curve.rows[0], position);
  }
  const std::uint64_t log_size = log2_fixed(size);
  std::size_t above = 0;
  while (above < curve.row_count && curve.rows[above].log_size <= log_size) {
    ++above;
  }
  if (above == 0) {
    return value_at(curve.rows[0], position);
  }
  const Row& low = curve.rows[above - 1];
  if (above == curve.row_count) {
    return beyond_last(value_at(low, position), size, low);
  }
  return blend(value_at(low, position), value_at(curve.rows[above], position),
               ((log_size - low.log_size) * low.log_gap_inverse) >> (32 - kFractionBits));
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

bool set_cost_curve(CostId cost, const std::vector<CostRow>& rows) {
  if (rows.empty() || rows.size() > kRowCountMax) {
    return false;
  }
  Curve& curve = curves[static_cast<std::size_t>(cost)];
  curve = {};
  curve.row_count = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].sample_count == 0) {
      return false;
    }
    Row& row = curve.rows[i];
    row = make_row(rows[i]);
    if (i > 0) {
      Row& before = curve.rows[i - 1];
      if (row.log_size == before.log_size) {
        return false;
      }
      before.log_gap_inverse = (std::uint64_t{1} << 32) / (row.log_size - before.log_size);
    }
  }
  return true;
}

std::uint64_t sample_cost(CostId cost, std::uint64_t size, std::uint32_t thread,
                          std::uint32_t draw) {
  const Curve& curve = curves[static_cast<std::size_t>(cost)];
  const std::uint64_t bits = random_bits(cost, thread, draw);
  // Leading ones: none in half of the draws, one in a quarter, ... The recordings say nothing about
  // the half below the median, so the first case is the median itself.
  const std::uint32_t ones = static_cast<std::uint32_t>(std::countl_one(bits));
  if (ones == 0) {
    return curve_value(curve, size, kPosition50);
  }
  return curve_value(curve, size, (std::uint64_t{ones} << kFractionBits) + (bits & (kOne - 1)));
}

std::uint64_t median_cost(CostId cost, std::uint64_t size) {
  return curve_value(curves[static_cast<std::size_t>(cost)], size, kPosition50);
}

}  // namespace simcuda
