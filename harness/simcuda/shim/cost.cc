#include "harness/simcuda/shim/cost.h"

#include <algorithm>
#include <array>
#include <bit>

namespace simcuda {
namespace {

constexpr std::uint32_t kFractionBits = 16;
constexpr std::uint64_t kOne = std::uint64_t{1} << kFractionBits;

// Where a quantile lies in the tail: k + f (fixed point) for the tail probability 2^-k * (1 - f /
// 2), so that a random number's leading ones and the bits behind them give a position without a
// logarithm.
constexpr std::uint64_t kPosition50 = kOne;  // 1
// The lower half is the same mirrored: the 10 % quantile lies as far below the median as the 90 %
// quantile above.
constexpr std::uint64_t kPosition90 = kOne * 340 / 100;     // 1/10 = 2^-3 * (1 - 0.4 / 2)
constexpr std::uint64_t kPosition99 = kOne * 672 / 100;     // 1/100 = 2^-6 * (1 - 0.72 / 2)
constexpr std::uint64_t kPosition999 = kOne * 9976 / 1000;  // 1/1000 = 2^-9 * (1 - 0.976 / 2)
constexpr std::size_t kPointCountMax = 5;

// A measured quantile: between two of them the logarithm of the value is interpolated. (Between P99
// and a largest sample thirty times as long a straight line would put P99.5 at four times P99;
// measured on an H200 it lies at 1.1 times.)
struct Point {
  std::uint64_t position = 0;
  std::uint64_t gap_inverse = 0;  // 2^32 / distance to the next point
  std::uint64_t value_ns = 0;
  std::uint64_t log_value = 0;  // log2_fixed
};

// One half of a row: its points from the median outwards.
struct Tail {
  std::array<Point, kPointCountMax> points{};
  std::size_t point_count = 0;
};

// One row of a curve, ready for sampling.
struct Row {
  std::uint64_t size = 0;
  std::uint64_t log_size = 0;         // log2 of the size, fixed point
  std::uint64_t log_gap_inverse = 0;  // 2^32 / (distance to the next row's log_size)
  Tail low, high;
  std::uint64_t mean_ns = 0;  // below P99; only where means are used
};
// Enough for any recording; fixed so that sampling touches no heap.
constexpr std::size_t kRowCountMax = 28;
struct Curve {
  std::array<Row, kRowCountMax> rows{};
  std::size_t row_count = 0;
};
// The curves of one cost, by level.
struct Level {
  std::uint64_t log_level = 0;
  std::uint64_t log_gap_inverse = 0;  // 2^32 / (distance to the next log_level)
  Curve curve;
};
constexpr std::size_t kLevelCountMax = 4;
struct Levels {
  std::array<Level, kLevelCountMax> levels{};
  std::size_t level_count = 0;
};
constinit std::array<Levels, kCostCount> costs{};  // written once, before the first sample
constinit bool uses_means = false;                 // likewise

constexpr std::array<std::string_view, kCostCount> kNames = {
#define COST(id, name) name,
#include "harness/simcuda/shim/costs.inc"
#undef COST
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

// Its inverse, rounded down.
std::uint64_t exp2_fixed(std::uint64_t log_value) {
  const std::uint64_t exponent = log_value >> kFractionBits;
  const std::uint64_t mantissa = kOne + (log_value & (kOne - 1));
  return exponent >= kFractionBits ? mantissa << (exponent - kFractionBits)
                                   : mantissa >> (kFractionBits - exponent);
}

// Between two values, weight in units of 2^-16.
std::uint64_t blend(std::uint64_t from, std::uint64_t to, std::uint64_t weight) {
  if (to >= from) return from + (((to - from) * weight) >> kFractionBits);
  return from - (((from - to) * weight) >> kFractionBits);
}

void add_point(Tail& tail, std::uint64_t position, std::uint64_t value_ns) {
  if (tail.point_count != 0) {
    Point& before = tail.points[tail.point_count - 1];
    if (position <= before.position) {
      return;  // too few samples to tell this quantile from the one before
    }
    before.gap_inverse = (std::uint64_t{1} << 32) / (position - before.position);
  }
  tail.points[tail.point_count++] = {
      .position = position, .value_ns = value_ns, .log_value = log2_fixed(value_ns)};
}

// Where in a row: in which half, and how far out; or its mean.
struct Place {
  bool is_low = false;
  std::uint64_t position = kPosition50;
  bool is_mean = false;
};

std::uint64_t value_at(const Row& row, Place place) {
  if (place.is_mean) return row.mean_ns;
  const Tail& tail = place.is_low ? row.low : row.high;
  std::size_t above = 1;
  while (above < tail.point_count && tail.points[above].position <= place.position) {
    ++above;
  }
  const Point& inner = tail.points[above - 1];
  if (above == tail.point_count) return inner.value_ns;
  const std::uint64_t weight =
      ((place.position - inner.position) * inner.gap_inverse) >> (32 - kFractionBits);
  return exp2_fixed(blend(inner.log_value, tail.points[above].log_value, weight));
}

// Where a tail of `part` of `whole` begins; at most half.
std::uint64_t position_of_tail(std::uint64_t part, std::uint64_t whole) {
  const std::uint64_t octave = static_cast<std::uint64_t>(std::bit_width(whole / part)) - 1;
  return (octave << kFractionBits) + 2 * (kOne - (part << octave) * kOne / whole);
}

// Of quantiles in equal steps up to P99. Beyond, one call in a hundred would outweigh the others.
std::uint64_t mean_below_p99(const Row& row) {
  constexpr std::uint64_t kStepCount = 128;
  constexpr std::uint64_t kWhole = 2 * kStepCount * 100;
  std::uint64_t sum_ns = 0;
  for (std::uint64_t step = 0; step < kStepCount; ++step) {
    const std::uint64_t below = (2 * step + 1) * 99;
    const bool is_low = 2 * below <= kWhole;
    const std::uint64_t tail = is_low ? below : kWhole - below;
    sum_ns += value_at(row, {.is_low = is_low, .position = position_of_tail(tail, kWhole)});
  }
  return sum_ns / kStepCount;
}

// A percentile counts only where there were enough samples for it; beyond the largest sample the
// value stays.
Row make_row(const CostRow& recorded) {
  Row row;
  row.size = recorded.size;
  row.log_size = log2_fixed(recorded.size);
  const std::uint64_t largest = position_of_tail(1, recorded.sample_count);  // of 1 in n
  add_point(row.high, kPosition50, recorded.p50_ns);
  add_point(row.low, kPosition50, recorded.p50_ns);
  if (largest > kPosition90) {
    add_point(row.high, kPosition90, recorded.p90_ns);
    add_point(row.low, kPosition90, recorded.p10_ns);
  }
  if (largest > kPosition99) {
    add_point(row.high, kPosition99, recorded.p99_ns);
  }
  if (largest > kPosition999) {
    add_point(row.high, kPosition999, recorded.p999_ns);
  }
  add_point(row.high, largest, recorded.max_ns);
  add_point(row.low, largest, recorded.min_ns);
  if (uses_means) row.mean_ns = mean_below_p99(row);
  return row;
}

// Larger than anything recorded: in proportion to the size, as the largest rows of all recordings
// nearly are.
std::uint64_t beyond_last(std::uint64_t value_ns, std::uint64_t size, const Row& last) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{value_ns} * size / std::max<std::uint64_t>(last.size, 1));
}

std::uint64_t curve_value(const Curve& curve, std::uint64_t size, Place place) {
  if (curve.row_count == 1) return value_at(curve.rows[0], place);
  const std::uint64_t log_size = log2_fixed(size);
  std::size_t above = 0;
  while (above < curve.row_count && curve.rows[above].log_size <= log_size) {
    ++above;
  }
  if (above == 0) return value_at(curve.rows[0], place);
  const Row& low = curve.rows[above - 1];
  if (above == curve.row_count) return beyond_last(value_at(low, place), size, low);
  return blend(value_at(low, place), value_at(curve.rows[above], place),
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

// Rows by rising size; false where there are none, too many, or two that are too close.
bool fill_curve(Curve& curve, const std::vector<CostRow>& rows) {
  if (rows.empty() || rows.size() > kRowCountMax) return false;
  curve.row_count = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].sample_count == 0) return false;
    Row& row = curve.rows[i];
    row = make_row(rows[i]);
    if (i > 0) {
      Row& before = curve.rows[i - 1];
      if (row.log_size <= before.log_size) return false;
      before.log_gap_inverse = (std::uint64_t{1} << 32) / (row.log_size - before.log_size);
    }
  }
  return true;
}

// Between the two levels around the asked one; beyond the first and last one their values stay.
std::uint64_t cost_value(const Levels& all, CostPoint at, Place place) {
  std::size_t above = 0;
  if (all.level_count > 1) {
    const std::uint64_t log_level = log2_fixed(at.level);
    while (above < all.level_count && all.levels[above].log_level <= log_level) {
      ++above;
    }
    if (above > 0 && above < all.level_count) {
      const Level& low = all.levels[above - 1];
      return blend(curve_value(low.curve, at.size, place),
                   curve_value(all.levels[above].curve, at.size, place),
                   ((log_level - low.log_level) * low.log_gap_inverse) >> (32 - kFractionBits));
    }
  }
  return curve_value(all.levels[above == 0 ? 0 : above - 1].curve, at.size, place);
}

}  // namespace

std::string_view cost_name(CostId cost) { return kNames[static_cast<std::size_t>(cost)]; }

bool set_cost_curves(CostId cost, const std::vector<CostLevel>& levels) {
  if (levels.empty() || levels.size() > kLevelCountMax) return false;
  Levels& all = costs[static_cast<std::size_t>(cost)];
  // What is not used stays as it is: to clear all of it would take the start of a process 2 ms.
  all.level_count = levels.size();
  for (std::size_t i = 0; i < levels.size(); ++i) {
    Level& level = all.levels[i];
    level.log_level = log2_fixed(levels[i].level);
    level.log_gap_inverse = 0;
    if (!fill_curve(level.curve, levels[i].rows)) return false;
    if (i > 0) {
      Level& before = all.levels[i - 1];
      if (level.log_level <= before.log_level) return false;
      before.log_gap_inverse = (std::uint64_t{1} << 32) / (level.log_level - before.log_level);
    }
  }
  return true;
}

std::uint64_t sample_cost(CostId cost, CostPoint at, std::uint32_t thread, std::uint32_t draw) {
  const Levels& levels = costs[static_cast<std::size_t>(cost)];
  if (uses_means) return cost_value(levels, at, {.is_mean = true});
  const std::uint64_t bits = random_bits(cost, thread, draw);
  // The first bit chooses the half, the ones that follow it in the upper half, or that follow the
  // next in the lower one, how far out: one step in half of the draws, two in a quarter, ...
  const bool is_low = std::countl_one(bits) == 0;
  const auto octave =
      static_cast<std::uint64_t>(is_low ? 1 + std::countl_one(bits << 1) : std::countl_one(bits));
  return cost_value(
      levels, at, {.is_low = is_low, .position = (octave << kFractionBits) + (bits & (kOne - 1))});
}

void use_mean_costs(bool uses) { uses_means = uses; }

std::uint64_t median_cost(CostId cost, std::uint64_t size) {
  return cost_value(costs[static_cast<std::size_t>(cost)], {.size = size}, {});
}

}  // namespace simcuda
