// How much one trace is like another: distances between a recorded trace and a generated one, each
// one number. Defined in workloads/FIDELITY.md, "Fidelity". In: two event sources, each read twice.
// Out: a report, and its text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

inline constexpr std::size_t kSizeBinCount = 64 * 8;      // eighths of an octave
inline constexpr std::size_t kLifetimeBinCount = 64 + 1;  // octaves; the last: never freed
inline constexpr std::size_t kCurvePointCount = 1024;

// What a trace is compared by.
struct TraceShape {
  std::string name;
  std::uint64_t alloc_count = 0;
  std::uint64_t requested_bytes = 0;       // sum over all allocs
  std::uint64_t requested_bytes_peak = 0;  // largest sum over live blocks
  // Of the steady steps, their medians; absent where the trace has none.
  std::size_t steady_step_count = 0;
  std::optional<std::uint64_t> allocs_per_step;
  std::optional<std::uint64_t> bytes_per_step;
  std::array<std::uint64_t, kSizeBinCount> size_bin_bytes{};           // by size of the request
  std::array<std::uint64_t, kLifetimeBinCount> lifetime_bin_counts{};  // by allocs and frees lived
  std::vector<std::uint64_t> live_bytes_curve;  // largest live bytes in each part of the trace
};

// Reads the source from its first event, twice. Throws UsageError where an event breaks a rule of
// valid traces.
[[nodiscard]] TraceShape measure_shape(EventSource& source);

// Changes are generated / reference - 1; overlaps go from 0 to 1 (the same).
struct FidelityReport {
  std::optional<double> allocs_per_step_change;
  std::optional<double> bytes_per_step_change;
  double peak_change = 0;
  double size_overlap = 0;
  double lifetime_overlap = 0;
  double curve_distance = 0;  // mean distance of the curves, in parts of the reference's peak
};

// Both traces must have allocs; throws UsageError where one has none.
[[nodiscard]] FidelityReport compare_shapes(const TraceShape& reference,
                                            const TraceShape& generated);

// For people, one line per number.
[[nodiscard]] std::string to_text(const FidelityReport& report, const TraceShape& reference,
                                  const TraceShape& generated);

}  // namespace allocmark
