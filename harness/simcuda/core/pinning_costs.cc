// See pinning_costs.h. The table is what scripts/measure/pin_middle.py says.
#include "harness/simcuda/core/pinning_costs.h"

#include <array>
#include <cstddef>

#include "base/assert.h"
#include "harness/simcuda/core/units.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::size_t kSizeCount = 11;  // 1, 2, 4, ... 1024 MiB
using Row = std::array<std::uint32_t, kSizeCount>;

// Microseconds of a call by size. Each is the middle of the slowest and the fastest host, by ratio.
constexpr std::array<Row, 7> kRows = {{
    {{600, 600, 995, 2080, 4388, 11443, 22075, 46932, 105259, 185512, 403223}},  // Allocate
    {{238, 238, 383, 736, 1447, 3260, 5745, 12811, 29295, 46749, 115802}},       // Free
    {{279, 508, 956, 1926, 4279, 10556, 22152, 45668, 100815, 211680, 442023}},  // Register
    {{102, 159, 203, 340, 621, 1194, 2192, 4753, 9068, 16867, 35925}},           // RegisterTouched
    {{56, 82, 105, 163, 281, 535, 1018, 2006, 4282, 7802, 15779}},               // Unregister
    {{4741, 3021, 3713, 4910, 5129, 6297, 6684, 6973, 7151, 6742, 7787}},        // TakeChunk
    {{1057, 1057, 1057, 1057, 1057, 1057, 1104, 1384, 1433, 1115, 1557}},        // ReturnChunk
}};

// Blocks up to a slab's size share one.
bool is_shared(PinCall call, std::uint64_t size_bytes) {
  return size_bytes < kPageBytes && (call == PinCall::Allocate || call == PinCall::Free);
}

}  // namespace

std::uint64_t pinning_ns(PinCall call, std::uint64_t size_bytes) {
  if (is_shared(call, size_bytes)) return pinning_ns(call, kPageBytes) * size_bytes / kPageBytes;
  const Row& row = kRows[static_cast<std::size_t>(call)];
  constexpr std::uint64_t kLastBytes = kMib << (kSizeCount - 1);
  const bool is_chunk = call == PinCall::TakeChunk || call == PinCall::ReturnChunk;
  if (size_bytes >= kLastBytes) {
    const std::uint64_t last_ns = std::uint64_t{row.back()} * 1000;
    return is_chunk ? last_ns : last_ns / 1024 * (size_bytes / kMib);
  }
  if (size_bytes <= kMib && is_chunk) return std::uint64_t{row.front()} * 1000;
  // On the line through the two rows around it; below the first one on the line behind it.
  std::size_t above = 1;
  while (size_bytes > kMib << above) ++above;
  const std::int64_t low_ns = std::int64_t{row[above - 1]} * 1000;
  const std::int64_t rise_ns = std::int64_t{row[above]} * 1000 - low_ns;
  const std::uint64_t low_bytes = kMib << (above - 1);
  const std::int64_t beyond_kib =
      (static_cast<std::int64_t>(size_bytes) - static_cast<std::int64_t>(low_bytes)) / 1024;
  const std::int64_t took_ns =
      low_ns + rise_ns * beyond_kib / static_cast<std::int64_t>(low_bytes / 1024);
  ALLOCMARK_ASSERT(took_ns > 0);
  return static_cast<std::uint64_t>(took_ns);
}

}  // namespace simcuda
