// Formats each column with one unit and fixed decimals, so that columns align.
#include "results/columns/columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

struct Unit {
  const char* name;
  double divisor;
  int decimals;
};

// GiB from here on; MiB below.
constexpr double kGibibytesFromBytes = 10.0 * static_cast<double>(kGiB);

// A call takes from tens of nanoseconds to milliseconds, a step or request a thousand times that.
constexpr Unit kCallUnit{"us", 1e3, 3};
constexpr Unit kStepUnit{"ms", 1e6, 3};

// Places of columns: a table that is too wide leaves out the last ones first.
enum Place : unsigned {
  kStatusOfProblem,
  kRequest,
  kWall,
  kWallAdded,
  kStep,
  kOomCount,
  kAllocateP50,
  kAllocateP99,
  kReservedPeak,
  kFreeP50,
  kAllocateScaled,
  kFreeP99,
  kWaste,
  kRegret,
  kFreeScaled,
  kStranded,
  kRequestedPeak,
  kOomRate,
  kAllocateP999,
  kDriverCalls,
  kStatus
};

Unit bytes_unit(double max_bytes) {
  if (max_bytes >= kGibibytesFromBytes) return {"GiB", static_cast<double>(kGiB), 2};
  return {"MiB", static_cast<double>(kMiB), 1};
}

// Fixed decimals, but three significant figures for what would make the table too wide.
std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  constexpr std::size_t kWidthMax = 11;
  return text.size() > kWidthMax ? fmt::format("{:.2e}", value) : text;
}

double or_undefined(std::optional<double> value) { return value.value_or(kUndefined); }

double or_undefined(std::optional<std::uint64_t> value) {
  return value ? static_cast<double>(*value) : kUndefined;
}

// A latency column: where its value is found and how many samples it needs.
struct LatencyColumn {
  std::string_view operation;
  const char* name;
  OperationLatency CellResult::*latency;
  double LatencySummary::*value;
  Percentile percentile;
  Place place;
};

constexpr std::array<LatencyColumn, 5> kLatencyColumns{{
    {"allocate", "P50", &CellResult::allocate, &LatencySummary::p50_ns, kP50, kAllocateP50},
    {"allocate", "P99", &CellResult::allocate, &LatencySummary::p99_ns, kP99, kAllocateP99},
    {"allocate", "P99.9", &CellResult::allocate, &LatencySummary::p999_ns, kP999, kAllocateP999},
    {"free", "P50", &CellResult::deallocate, &LatencySummary::p50_ns, kP50, kFreeP50},
    {"free", "P99", &CellResult::deallocate, &LatencySummary::p99_ns, kP99, kFreeP99},
}};

struct RequestColumn {
  const char* group;
  const char* name;
  LatencySummary RequestLatency::*latency;
  double LatencySummary::*value;
  Percentile percentile;
  unsigned place;
};

constexpr RequestColumn kRequestP99{
    "request", "P99", &RequestLatency::latency, &LatencySummary::p99_ns, kP99, 0};

constexpr std::array<RequestColumn, 7> kRequestColumns{{
    {"request", "P50", &RequestLatency::latency, &LatencySummary::p50_ns, kP50, 2},
    kRequestP99,
    {"request", "P99.9", &RequestLatency::latency, &LatencySummary::p999_ns, kP999, 6},
    {"1st token", "P50", &RequestLatency::first_token, &LatencySummary::p50_ns, kP50, 5},
    {"1st token", "P99", &RequestLatency::first_token, &LatencySummary::p99_ns, kP99, 3},
    {"delay", "P50", &RequestLatency::delay, &LatencySummary::p50_ns, kP50, 4},
    {"delay", "P99", &RequestLatency::delay, &LatencySummary::p99_ns, kP99, 1},
}};
constexpr unsigned kRequestCountPlace = 7;

class Builder {
 public:
  explicit Builder(std::span<const CellResult> cells) : cells_(cells) {
    columns_.rows.resize(cells.size());
  }

  // value_of is asked for measured cells only; the others get "-".
  template <typename ValueOf>
  std::vector<double> values(ValueOf value_of) const {
    std::vector<double> values;
    for (const CellResult& cell : cells_) {
      values.push_back(is_measured(cell) ? value_of(cell) : kUndefined);
    }
    return values;
  }

  static double largest(const std::vector<double>& values) {
    double largest = 0;
    for (const double value : values) {
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    return largest;
  }

  void add(Column heading, const std::vector<double>& values, double divisor, int decimals) {
    columns_.headings.push_back(std::move(heading));
    for (std::size_t row = 0; row < values.size(); ++row) {
      columns_.rows[row].push_back(fixed(values[row] / divisor, decimals));
    }
  }

  void add_status() {
    const bool all_ok = std::ranges::all_of(
        cells_, [](const CellResult& cell) { return cell.status == CellStatus::Ok; });
    columns_.headings.push_back({"", "status", "", all_ok ? kStatus : kStatusOfProblem});
    for (std::size_t row = 0; row < cells_.size(); ++row) {
      columns_.rows[row].emplace_back(to_string(cells_[row].status));
    }
  }

  // What the user waits for: a request where the cells serve any, and the allocator's part of a
  // step where they have steps.
  void add_costs() {
    if (has_any_requests()) add_request(kRequestP99, kRequest);
    add_wall_times();
    const auto steps = values([](const CellResult& cell) {
      const double step_ns = shown_step(cell).time_ns;
      return step_ns > 0 ? step_ns : kUndefined;
    });
    if (largest(steps) == 0) return;
    add({"time", "per step", kStepUnit.name, kStep}, steps, kStepUnit.divisor, kStepUnit.decimals);
  }

  void add_oom() {
    add({"OOM", "n", "", kOomCount},
        values([](const CellResult& cell) { return static_cast<double>(cell.oom_count); }), 1, 0);
    const auto percents =
        values([](const CellResult& cell) { return 100 * or_undefined(oom_rate(cell)); });
    add({"OOM", "rate", "%", kOomRate}, percents, 1, 2);
    for (std::size_t row = 0; row < cells_.size(); ++row) {
      if (percents[row] > 0 && percents[row] < 0.01) columns_.rows[row].back() = "<0.01";
    }
  }

  void add_latencies(std::string_view operation) {
    for (const LatencyColumn& column : kLatencyColumns) {
      if (column.operation == operation) add_latency(column);
    }
  }

  // Only where it matters: a host that is about as fast as the other one has nothing to say.
  void add_scaled(std::string_view operation, double ScaledLatency::*value, Place place) {
    const bool apart = std::ranges::any_of(cells_, [](const CellResult& cell) {
      return is_measured(cell) && cell.host_scale > 0 && hosts_are_apart(cell.host_scale);
    });
    if (!apart) return;
    columns_.has_scaled = true;
    add({std::string(operation), "P50 at card", kCallUnit.name, place},
        values([&](const CellResult& cell) {
          const double scaled_ns = cell.scaled.*value;
          return scaled_ns > 0 ? scaled_ns : kUndefined;
        }),
        kCallUnit.divisor, kCallUnit.decimals);
  }

  void add_memory() {
    const auto requested = values(
        [](const CellResult& cell) { return static_cast<double>(cell.requested_bytes_peak); });
    const auto reserved =
        values([](const CellResult& cell) { return or_undefined(cell.reserved_bytes_peak); });
    const Unit unit = bytes_unit(std::max(largest(requested), largest(reserved)));
    add({"peak", "requested", unit.name, kRequestedPeak}, requested, unit.divisor, unit.decimals);
    add({"peak", "reserved", unit.name, kReservedPeak}, reserved, unit.divisor, unit.decimals);
    add_stranded(unit);
    add({"", "waste", "%", kWaste},
        values([](const CellResult& cell) { return 100 * or_undefined(waste_share(cell)); }), 1, 1);
    add_regret();
    add({"driver", "calls", "", kDriverCalls}, values([](const CellResult& cell) {
          return or_undefined(cell.device_allocate_count) + or_undefined(cell.device_free_count);
        }),
        1, 0);
  }

  // All in one unit: the delay reads against the latency it is part of.
  void add_requests() {
    if (!has_any_requests()) return;
    add({"requests", "done", "", kRequestCountPlace}, values([](const CellResult& cell) {
          return cell.requests ? static_cast<double>(cell.requests->latency.count) : kUndefined;
        }),
        1, 0);
    for (const RequestColumn& column : kRequestColumns) add_request(column, column.place);
  }

  Columns take() { return std::move(columns_); }

 private:
  // Where cells have private pools: memory in them that no request of another pool gets.
  void add_stranded(const Unit& unit) {
    const auto stranded = values([](const CellResult& cell) {
      const auto bytes = counter_of(cell, "private_pools.stranded_bytes_peak");
      return bytes ? static_cast<double>(*bytes) : kUndefined;
    });
    if (std::ranges::none_of(stranded, [](double bytes) { return std::isfinite(bytes); })) return;
    add({"peak", "stranded", unit.name, kStranded}, stranded, unit.divisor, unit.decimals);
  }

  // Not of files that know no bound.
  void add_regret() {
    const auto percents =
        values([](const CellResult& cell) { return 100 * or_undefined(regret_share(cell)); });
    if (std::ranges::none_of(percents, [](double value) { return std::isfinite(value); })) return;
    add({"", "regret", "%", kRegret}, percents, 1, 1);
  }

  // Of a step as the program's user sees it, and what the setting adds to it.
  void add_wall_times() {
    const auto wall = [&](auto value_of) {
      return values([&](const CellResult& cell) {
        return knows_wall_time(cell) ? value_of(cell) : kUndefined;
      });
    };
    const auto steps = wall([](const CellResult& cell) { return cell.step_ns_mean; });
    if (largest(steps) == 0) return;
    const auto added = wall([](const CellResult& cell) {
      return std::max(0.0, cell.step_ns_mean - cell.step_ideal_ns_mean);
    });
    add({"a step", "takes", kStepUnit.name, kWall}, steps, kStepUnit.divisor, 1);
    add({"a step", "added", kStepUnit.name, kWallAdded}, added, kStepUnit.divisor,
        kStepUnit.decimals);
  }

  std::vector<double> latencies(const LatencyColumn& column) const {
    return values([&](const CellResult& cell) {
      const LatencySummary& summary = (cell.*column.latency).total;
      return summary.count > 0 ? summary.*column.value : kUndefined;
    });
  }

  void add_latency(const LatencyColumn& column) {
    const auto found = latencies(column);
    add({std::string(column.operation), column.name, kCallUnit.name, column.place}, found,
        kCallUnit.divisor, kCallUnit.decimals);
    for (std::size_t row = 0; row < cells_.size(); ++row) {
      if (!std::isfinite(found[row])) continue;
      mark_few_samples(column.percentile, (cells_[row].*column.latency).total.count, row);
    }
  }

  [[nodiscard]] bool has_any_requests() const {
    return std::ranges::any_of(cells_, [](const CellResult& cell) {
      return is_measured(cell) && cell.requests.has_value();
    });
  }

  void add_request(const RequestColumn& column, unsigned place) {
    const auto found = requests(column);
    add({column.group, column.name, kStepUnit.name, place}, found, kStepUnit.divisor,
        kStepUnit.decimals);
    for (std::size_t row = 0; row < cells_.size(); ++row) {
      if (!std::isfinite(found[row])) continue;
      const LatencySummary& summary = (*cells_[row].requests).*column.latency;
      mark_few_samples(column.percentile, summary.count, row);
    }
  }

  // Marks the last value of the row.
  void mark_few_samples(Percentile percentile, std::uint64_t count, std::size_t row) {
    if (has_enough_samples(percentile, count)) return;
    columns_.rows[row].back().insert(0, "~");
    columns_.has_marks = true;
  }

  std::vector<double> requests(const RequestColumn& column) const {
    return values([&](const CellResult& cell) {
      if (!cell.requests) return kUndefined;
      const LatencySummary& summary = (*cell.requests).*column.latency;
      return summary.count > 0 ? summary.*column.value : kUndefined;
    });
  }

  std::span<const CellResult> cells_;
  Columns columns_;
};

auto group_fields(const CellKey& key) {
  return std::tie(key.workload, key.device, key.capacity, key.seed, key.on_oom);
}

}  // namespace

std::vector<CellGroup> group_cells(std::span<const CellResult> cells) {
  std::vector<CellGroup> groups;
  for (const CellResult& cell : cells) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const CellGroup& group) {
      return group_fields(group.key()) == group_fields(cell.key);
    });
    if (same == groups.end()) {
      groups.push_back({.cells = {&cell}});
    } else {
      same->cells.push_back(&cell);
    }
  }
  return groups;
}

std::optional<std::uint64_t> capacity_bytes(const CellGroup& group) {
  if (group.key().capacity == "unlimited" || group.key().capacity.empty()) return std::nullopt;
  std::optional<std::uint64_t> bytes;
  for (const CellResult* cell : group.cells) {
    if (!is_measured(*cell)) continue;
    if (bytes && *bytes != cell->capacity_bytes) return std::nullopt;
    bytes = cell->capacity_bytes;
  }
  return bytes;
}

Columns make_columns(std::span<const CellResult> cells) {
  Builder builder(cells);
  builder.add_status();
  builder.add_costs();
  builder.add_oom();
  builder.add_latencies("allocate");
  builder.add_scaled("allocate", &ScaledLatency::allocate_p50_ns, kAllocateScaled);
  builder.add_latencies("free");
  builder.add_scaled("free", &ScaledLatency::deallocate_p50_ns, kFreeScaled);
  builder.add_memory();
  return builder.take();
}

Columns make_request_columns(std::span<const CellResult> cells) {
  Builder builder(cells);
  builder.add_requests();
  return builder.take();
}

bool has_requests(const CellGroup& group) {
  return std::ranges::any_of(group.cells, [](const CellResult* cell) {
    return is_measured(*cell) && cell->requests.has_value();
  });
}

std::string_view conf_or_unset(const CellKey& key) {
  return key.conf.empty() ? std::string_view("unset") : std::string_view(key.conf);
}

}  // namespace allocmark
