// See compare_host.h.
#include "results/compare/compare_host.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace allocmark {
namespace {

struct HostNumber {
  const char* name;
  // Changes of less are what the same thing shows from process to process.
  double floor, floor_share;
  std::optional<std::uint64_t> (*value)(const CellResult& cell);
};

constexpr HostNumber kHostNumbers[] = {
    {"host_taken_bytes", 16.0 * (1 << 20), 0.10,
     [](const CellResult& cell) { return cell.host_taken_bytes; }},
    {"other_threads_ns_per_s", 20e6, 0.25,
     [](const CellResult& cell) { return cell.other_threads_ns_per_s; }},
};

struct Reach {
  double low = std::numeric_limits<double>::max(), high = -1;
  [[nodiscard]] bool known() const { return high >= 0; }
};

Reach reach_of(const HostNumber& number, const Processes& processes) {
  Reach reach;
  for (const CellResult* cell : processes) {
    const std::optional<std::uint64_t> value = number.value(*cell);
    if (!value) continue;
    reach.low = std::min(reach.low, static_cast<double>(*value));
    reach.high = std::max(reach.high, static_cast<double>(*value));
  }
  return reach;
}

}  // namespace

void add_host_numbers(const ExactSides& sides, const ComparePolicy& policy,
                      std::vector<NumberComparison>& numbers) {
  if (!sides.base->key.device.starts_with("sim:") || !sides.now->key.device.starts_with("sim:")) {
    return;
  }
  for (const HostNumber& host : kHostNumbers) {
    const Reach base = reach_of(host, sides.base_processes);
    const Reach now = reach_of(host, sides.now_processes);
    if (!base.known() || !now.known()) continue;
    // What disturbs a process adds to it, so that the least of a side is the surest.
    NumberComparison number{.name = host.name, .base = base.low, .now = now.low};
    if (base.low > 0) number.change = (now.low - base.low) / base.low;
    const double share = std::max(host.floor_share, policy.effect_min_of(number.name, false));
    const auto is_more = [&](const Reach& more, const Reach& less) {
      return more.low > less.high + std::max(host.floor, share * less.high);
    };
    if (is_more(now, base)) number.verdict = Verdict::Worse;
    if (is_more(base, now)) number.verdict = Verdict::Better;
    if (number.verdict == Verdict::Same && base.low != now.low) {
      number.reason = "no more than processes of the same thing differ";
    }
    numbers.push_back(std::move(number));
  }
}

}  // namespace allocmark
