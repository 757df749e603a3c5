// The numbers of a cell that are computed from what is stored: rates with their uncertainty, and
// fragmentation under its published definitions. Flows in: counts and bytes; flows out: numbers, or
// nothing where they are not defined. Neither times nor checks allocators.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "results/schema.h"
#include "results/statistics/proportion.h"

namespace allocmark {

// Whether the cell's numbers are measurements: status ok or oom_stopped.
[[nodiscard]] bool is_measured_status(CellStatus status);
[[nodiscard]] bool is_measured(const CellResult& cell);

// Whether every timed pass decided as the checked pass did.
[[nodiscard]] bool is_deterministic(const CellResult& cell);

// Whether two hosts are more than 10 % apart, one of which takes `ratio` times as long as the
// other; others count as equally fast.
[[nodiscard]] bool hosts_are_apart(double ratio);

// The first words of the warning that a run gets where others were at work when it began.
inline constexpr std::string_view kOtherWorkWarning = "other work was running";
[[nodiscard]] bool ran_beside_other_work(const Environment& environment);

// Whether the trace tells enough of the program to say how long a step takes: its own time on the
// host, and the device's work.
[[nodiscard]] bool knows_wall_time(const CellResult& cell);

// What tables and answers show as the allocator's time per step: the scaled one where there is one,
// so that the host at hand does not matter.
struct ShownStep {
  double time_ns = 0;  // 0 without steps
  double PassSummary::*of_pass = nullptr;
};
[[nodiscard]] ShownStep shown_step(const CellResult& cell);

// What the pass that looks into blocks did otherwise than the checked pass, as a sentence; empty
// where it did the same or there was none.
[[nodiscard]] std::string contents_difference(const CellResult& cell);

// What of a cell's passes did not decide as its checked pass did.
struct Decisions {
  bool changed_by_looking = false;  // contents_difference
  bool differing = false;           // not is_deterministic
};
[[nodiscard]] Decisions decisions_of(const CellResult& cell);

// How many of the cells do not decide alike in all their passes, for the notes below tables; empty
// where all do.
[[nodiscard]] std::string decisions_sentence(std::span<const Decisions> cells);
[[nodiscard]] std::string decisions_sentence(std::span<const CellResult> cells);

// Failed requests over the trace's requests, 0..1; nothing where the cell made none, did not
// measure, or stopped at an OOM (the rest of its requests was never made). No interval: requests of
// one trace are not independent.
[[nodiscard]] std::optional<double> oom_rate(const CellResult& cell);

// Timed passes with an OOM over timed passes, with Wilson's interval at 95 %.
[[nodiscard]] std::optional<Proportion> trial_oom_rate(const CellResult& cell);

// Below this live set fragmentation says more about the allocator's segment size than about
// fragmentation.
inline constexpr std::uint64_t kFragmentationFloorBytes = 16 * kMiB;

// A number of this file by the name that CSV and exports have it under.
struct DerivedNumber {
  std::string_view name;
  std::optional<double> (*value)(const CellResult& cell);
};
// All of them, in the order of CSV's columns.
[[nodiscard]] std::span<const DerivedNumber> derived_numbers();

// Fragmentation, each definition by the name of who published or ships it; papers differ, so a bare
// "fragmentation" is never printed. results/DEFINITIONS.md has each formula. Shares are in 0..1;
// ratios are >= 1. Nothing where the cell did not measure, where an input is unknown or contradicts
// another one, or where requested_bytes_peak lies below kFragmentationFloorBytes.
[[nodiscard]] std::span<const DerivedNumber> fragmentation_numbers();

// The share of the memory taken from the device that the program's own peak did not need, 0..1 (the
// tables' "waste"): 1 - requested_bytes_peak / device_bytes_peak. Nothing where a request failed:
// the program's peak was not reached then. The same floor applies.
[[nodiscard]] std::optional<double> waste_share(const CellResult& cell);

// What the cell's requests need at least, as far as it is known: packed_bytes, else
// rounded_bytes_peak. Nothing before schema 1.15.
[[nodiscard]] std::optional<std::uint64_t> least_bytes(const CellResult& cell);

// The least number of bytes in whole pages of 2 MiB, as devices hand them out.
[[nodiscard]] std::optional<std::uint64_t> least_page_bytes(const CellResult& cell);

// How much more than that the allocator reserved: reserved_bytes_peak / least_bytes - 1. Below 0
// where it aligns to less than 512 B. Nothing where a request failed; the same floor applies.
[[nodiscard]] std::optional<double> regret_share(const CellResult& cell);

// One of the cell's counters by its name; nothing where the cell has none of that name.
[[nodiscard]] std::optional<std::int64_t> counter_of(const CellResult& cell, std::string_view name);

}  // namespace allocmark
