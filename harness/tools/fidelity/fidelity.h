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

// The two side by side as a page of their own: live bytes over the trace, bytes by size of request,
// blocks by lifetime. HTML with inline SVG, which needs neither a network nor another file.
// `table`: the distances as text, shown above the plots as it is.
[[nodiscard]] std::string fidelity_page(const TraceShape& reference, const TraceShape& generated,
                                        const std::string& table);

// What a difference between two traces does to an allocator: both replayed through `caching` on the
// simulated H200, one config string after the other. Checks; times nothing.

// One trace under one config string. Absent where a request failed: the trace then needs more than
// the device has.
struct ReplayNumbers {
  std::optional<std::uint64_t> reserved_bytes_peak;
  std::optional<double> fragmentation_share;  // results/DEFINITIONS.md, fragmentation_share_pytorch
};

struct ReplayPair {
  std::string conf;  // empty = unset
  ReplayNumbers reference, generated;
};

// Two traces to replay, as workloads ("file:PATH" for a trace of one's own).
struct ReplayRequest {
  std::string reference, generated;
  std::uint64_t seed = 1;
};

// For every request a pair per config string, in the order given. Throws CellsError where a
// replay crashes or is interrupted.
[[nodiscard]] std::vector<std::vector<ReplayPair>> replay_pairs(
    const std::vector<ReplayRequest>& requests, const std::vector<std::string>& confs);

}  // namespace allocmark
