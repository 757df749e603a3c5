// Rates, sample counts and fragmentation from a result's counts and bytes.
#include "results/derived.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "results/cell_words.h"

namespace allocmark {
namespace {

using Bytes = std::optional<std::uint64_t>;

// 1 - used / total; nothing where it is not defined.
std::optional<double> unused_share(Bytes used, Bytes total) {
  if (!used || !total || *total == 0 || *used > *total) return std::nullopt;
  return static_cast<double>(*total - *used) / static_cast<double>(*total);
}

// memory / live; nothing where it is not defined.
std::optional<double> overhead_ratio(Bytes memory, Bytes live) {
  if (!memory || !live || *live == 0 || *memory < *live) return std::nullopt;
  return static_cast<double>(*memory) / static_cast<double>(*live);
}

bool above_floor(const CellResult& cell) {
  return is_measured(cell) && cell.requested_bytes_peak >= kFragmentationFloorBytes;
}

using Definition = std::optional<double> (*)(const CellResult& cell);

template <Definition definition>
std::optional<double> guarded(const CellResult& cell) {
  return above_floor(cell) ? definition(cell) : std::nullopt;
}

std::optional<double> pytorch(const CellResult& cell) {
  return unused_share(cell.allocated_bytes_at_reserved_peak, cell.reserved_bytes_peak);
}

std::optional<double> gmlake(const CellResult& cell) {
  return unused_share(cell.active_bytes_peak, cell.reserved_bytes_peak);
}

std::optional<double> stalloc(const CellResult& cell) {
  return unused_share(cell.allocated_bytes_peak, cell.reserved_bytes_peak);
}

// What failed when the trace was recorded is in no peak of requests; where it is served here, it is
// in those of reserved memory.
bool served_what_failed_before(const CellResult& cell) {
  return cell.failed_before_count > cell.failed_again_count;
}

// requested_bytes_peak is the trace's; where a request failed, or the trace ended early, it was
// never live.
bool reached_requested_peak(const CellResult& cell) {
  return cell.status == CellStatus::Ok && cell.oom_count == 0 && !served_what_failed_before(cell);
}

std::optional<double> johnstone_wilson_2(const CellResult& cell) {
  if (!reached_requested_peak(cell)) return std::nullopt;
  return overhead_ratio(cell.reserved_bytes_at_requested_peak, cell.requested_bytes_peak);
}

std::optional<double> johnstone_wilson_3(const CellResult& cell) {
  return overhead_ratio(cell.reserved_bytes_peak, cell.requested_bytes_at_reserved_peak);
}

std::optional<double> johnstone_wilson_4(const CellResult& cell) {
  if (!reached_requested_peak(cell)) return std::nullopt;
  return overhead_ratio(cell.reserved_bytes_peak, cell.requested_bytes_peak);
}

std::optional<double> internal(const CellResult& cell) {
  return unused_share(cell.requested_bytes_at_reserved_peak, cell.allocated_bytes_at_reserved_peak);
}

std::optional<double> largest_free(const CellResult& cell) {
  if (!cell.oom_first) return std::nullopt;
  return unused_share(cell.oom_first->free_largest_bytes, cell.oom_first->free_bytes);
}

template <double Proportion::*part>
std::optional<double> trial_oom(const CellResult& cell) {
  const std::optional<Proportion> trials = trial_oom_rate(cell);
  return trials ? std::optional(*trials.*part) : std::nullopt;
}

constexpr std::size_t kFragmentationCount = 8;
constexpr DerivedNumber kDerivedNumbers[] = {
    {"oom_rate", oom_rate},
    {"trial_oom_rate", trial_oom<&Proportion::estimate>},
    {"trial_oom_rate_low", trial_oom<&Proportion::low>},
    {"trial_oom_rate_high", trial_oom<&Proportion::high>},
    {"waste_share", waste_share},
    {"least_page_bytes",
     [](const CellResult& cell) -> std::optional<double> { return least_page_bytes(cell); }},
    {"regret_share", regret_share},
    {"fragmentation_share_pytorch", guarded<pytorch>},
    {"fragmentation_share_gmlake", guarded<gmlake>},
    {"fragmentation_share_stalloc", guarded<stalloc>},
    {"fragmentation_ratio_johnstone_wilson_2", guarded<johnstone_wilson_2>},
    {"fragmentation_ratio_johnstone_wilson_3", guarded<johnstone_wilson_3>},
    {"fragmentation_ratio_johnstone_wilson_4", guarded<johnstone_wilson_4>},
    {"fragmentation_share_internal", guarded<internal>},
    {"fragmentation_share_largest_free", guarded<largest_free>},
};

}  // namespace

std::optional<double> oom_rate(const CellResult& cell) {
  if (cell.status != CellStatus::Ok || cell.allocate_count == 0) return std::nullopt;
  if (cell.oom_count > cell.allocate_count) return std::nullopt;
  return static_cast<double>(cell.oom_count) / static_cast<double>(cell.allocate_count);
}

std::optional<Proportion> trial_oom_rate(const CellResult& cell) {
  if (!is_measured(cell)) return std::nullopt;
  return wilson_interval(cell.trial_oom_count, cell.trial_count);
}

bool hosts_are_apart(double ratio) {
  constexpr double kShareMax = 0.1;
  return std::abs(std::log(ratio)) > std::log1p(kShareMax);
}

bool ran_beside_other_work(const Environment& environment) {
  return std::ranges::any_of(environment.warnings, [](const std::string& warning) {
    return warning.starts_with(kOtherWorkWarning);
  });
}

bool is_deterministic(const CellResult& cell) {
  return std::ranges::none_of(cell.warnings, [](const std::string& warning) {
    return warning.starts_with(kNotDeterministic);
  });
}

bool knows_wall_time(const CellResult& cell) {
  return cell.host_ns_total.value_or(0) > 0 && cell.kernel_ns_total.value_or(0) > 0 &&
         cell.step_ns_mean > 0;
}

ShownStep shown_step(const CellResult& cell) {
  if (cell.allocator_scaled_ns_per_step > 0) {
    return {cell.allocator_scaled_ns_per_step, &PassSummary::allocator_scaled_ns_per_step};
  }
  return {cell.allocator_ns_per_step, &PassSummary::allocator_ns_per_step};
}

std::string contents_difference(const CellResult& cell) {
  if (cell.contents_placement_hash.empty()) return {};
  if (cell.contents_oom_count != cell.oom_count) {
    return fmt::format(
        "the pass that looks into blocks had {} failed requests instead of {}: the figures are of "
        "the pass that does not",
        cell.contents_oom_count.value_or(0), cell.oom_count);
  }
  if (cell.contents_placement_hash == cell.placement_hash) return {};
  return "the pass that looks into blocks had other placements: the figures are of the pass that "
         "does not";
}

Decisions decisions_of(const CellResult& cell) {
  return {.changed_by_looking = !contents_difference(cell).empty(),
          .differing = !is_deterministic(cell)};
}

std::string decisions_sentence(std::span<const CellResult> cells) {
  std::vector<Decisions> decisions;
  std::ranges::transform(cells, std::back_inserter(decisions), decisions_of);
  return decisions_sentence(decisions);
}

std::string decisions_sentence(std::span<const Decisions> cells) {
  const auto changed = std::ranges::count_if(cells, &Decisions::changed_by_looking);
  const auto differing = std::ranges::count_if(cells, &Decisions::differing);
  std::string text;
  if (changed > 0) {
    text = fmt::format(
        "Looking into blocks changed what the allocator did in {} of {} cells: OOMs and memory are "
        "of a pass without it.",
        changed, cells.size());
  }
  if (differing > 0) {
    text += fmt::format(
        "{}In {} of {} cells timed passes placed or refused otherwise than the pass "
        "that OOMs and memory are of.",
        text.empty() ? "" : " ", differing, cells.size());
  }
  return text;
}

bool is_measured_status(CellStatus status) {
  return status == CellStatus::Ok || status == CellStatus::OomStopped;
}

bool is_measured(const CellResult& cell) { return is_measured_status(cell.status); }

std::span<const DerivedNumber> derived_numbers() { return kDerivedNumbers; }

std::span<const DerivedNumber> fragmentation_numbers() {
  return derived_numbers().last(kFragmentationCount);
}

std::optional<double> waste_share(const CellResult& cell) {
  if (!above_floor(cell) || !reached_requested_peak(cell)) return std::nullopt;
  return unused_share(cell.requested_bytes_peak, cell.device_bytes_peak);
}

std::optional<std::uint64_t> least_bytes(const CellResult& cell) {
  return cell.packed_bytes ? cell.packed_bytes : cell.rounded_bytes_peak;
}

std::optional<std::uint64_t> least_page_bytes(const CellResult& cell) {
  constexpr std::uint64_t kPageBytes = 2 * kMiB;
  const Bytes least = least_bytes(cell);
  if (!least) return std::nullopt;
  return (*least + kPageBytes - 1) / kPageBytes * kPageBytes;
}

std::optional<double> regret_share(const CellResult& cell) {
  if (!above_floor(cell) || !reached_requested_peak(cell)) return std::nullopt;
  const Bytes least = least_bytes(cell);
  if (!least || *least == 0 || !cell.reserved_bytes_peak) return std::nullopt;
  return static_cast<double>(*cell.reserved_bytes_peak) / static_cast<double>(*least) - 1;
}

std::optional<std::int64_t> counter_of(const CellResult& cell, std::string_view name) {
  const auto found = std::ranges::find(
      cell.counters, name, [](const auto& counter) { return std::string_view(counter.first); });
  return found == cell.counters.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace allocmark
