// Google Benchmark's JSON (json_schema_version 1). Each cell gives one benchmark for allocate and
// one for deallocate: its passes are the repetitions, and an aggregate "median" carries the whole
// cell's P50 and all counters. A cell with fewer than two passes gives one entry with everything.
// Numbers that are not finite are left out, never printed.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "results/columns/columns.h"
#include "results/columns/text.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/tables/writers.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct BenchmarkOperation {
  const char* name;
  OperationLatency CellResult::*latency;
  double PassSummary::*pass_p50;
};

constexpr BenchmarkOperation kBenchmarkOperations[] = {
    {"allocate", &CellResult::allocate, &PassSummary::allocate_p50_ns},
    {"deallocate", &CellResult::deallocate, &PassSummary::deallocate_p50_ns},
};

void add_number(OrderedJson& object, const std::string& name, double value) {
  if (std::isfinite(value)) object[name] = value;
}

void add_number(OrderedJson& object, const std::string& name, std::optional<std::uint64_t> value) {
  if (value) object[name] = *value;
}

void add_number(OrderedJson& object, const std::string& name, std::optional<double> value) {
  if (value) add_number(object, name, *value);
}

OrderedJson context(const Environment& environment) {
  std::string build_type = environment.build_type;
  std::transform(build_type.begin(), build_type.end(), build_type.begin(),
                 [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  OrderedJson object;
  object["date"] = environment.started_utc;
  object["host_name"] = environment.hostname_hash;
  object["executable"] = environment.argv.empty() ? std::string("allocmark") : environment.argv[0];
  object["num_cpus"] = environment.cpu_count;
  object["cpu_scaling_enabled"] =
      !environment.cpu_governor.empty() && environment.cpu_governor != "performance";
  object["caches"] = OrderedJson::array();
  object["load_avg"] = OrderedJson::array();
  // Google Benchmark knows two words here, and its tools warn about "debug".
  object["library_build_type"] = build_type == "debug" ? "debug" : "release";
  object["json_schema_version"] = 1;
  object["allocmark_version"] = environment.allocmark_version;
  object["allocmark_schema_version"] = environment.schema_version;
  object["git_sha"] = environment.git_sha;
  object["git_dirty"] = environment.git_dirty ? "true" : "false";
  object["device"] = environment.device;
  object["gpu_name"] = environment.gpu_name;
  object["driver_version"] = environment.driver_version;
  object["runtime_version"] = environment.runtime_version;
  object["profile_name"] = environment.profile_name;
  object["profile_hash"] = environment.profile_hash;
  object["cpu_model"] = environment.cpu_model;
  return object;
}

// The whole key, so that two cells never share a name; compare.py prints it to the terminal as it
// is.
std::string run_name(const CellKey& key, const BenchmarkOperation& operation) {
  return printable(fmt::format("{}/{}/{}/{}/capacity:{}/seed:{}/on_oom:{}/{}", key.workload,
                               key.allocator, conf_or_unset(key), key.device, key.capacity,
                               key.seed, key.on_oom, operation.name));
}

void add_summary(OrderedJson& entry, const std::string& prefix, const LatencySummary& summary) {
  entry[prefix + "count"] = summary.count;
  if (summary.count == 0) return;
  add_number(entry, prefix + "ns_p50", summary.p50_ns);
  add_number(entry, prefix + "ns_p90", summary.p90_ns);
  add_number(entry, prefix + "ns_p99", summary.p99_ns);
  add_number(entry, prefix + "ns_p999", summary.p999_ns);
  add_number(entry, prefix + "ns_max", summary.max_ns);
  add_number(entry, prefix + "ns_mean", summary.mean_ns);
}

void add_counters(OrderedJson& entry, const CellResult& cell, const BenchmarkOperation& operation) {
  const OperationLatency& latency = cell.*operation.latency;
  add_summary(entry, "latency_", latency.total);
  add_summary(entry, "host_latency_", latency.host);
  add_summary(entry, "driver_latency_", latency.driver);
  entry["oom_count"] = cell.oom_count;
  add_number(entry, "oom_rate", oom_rate(cell));
  if (const auto trials = trial_oom_rate(cell)) entry["trial_oom_rate"] = trials->estimate;
  entry["capacity_bytes"] = cell.capacity_bytes;
  entry["requested_bytes_peak"] = cell.requested_bytes_peak;
  add_number(entry, "allocated_bytes_peak", cell.allocated_bytes_peak);
  add_number(entry, "active_bytes_peak", cell.active_bytes_peak);
  add_number(entry, "reserved_bytes_peak", cell.reserved_bytes_peak);
  add_number(entry, "device_bytes_peak", cell.device_bytes_peak);
  add_number(entry, "device_allocate_count", cell.device_allocate_count);
  add_number(entry, "device_free_count", cell.device_free_count);
  add_number(entry, "waste_share", waste_share(cell));
  add_number(entry, "least_page_bytes", least_page_bytes(cell));
  add_number(entry, "regret_share", regret_share(cell));
  for (const DerivedNumber& definition : fragmentation_numbers()) {
    add_number(entry, std::string(definition.name), definition.value(cell));
  }
  add_number(entry, "harness_overhead_ns_p50", cell.harness_overhead_ns_p50);
}

OrderedJson begin_entry(const std::string& name, const std::string& run, const char* run_type,
                        std::size_t repetition_count) {
  return OrderedJson{{"name", name},
                     {"run_name", run},
                     {"run_type", run_type},
                     {"repetitions", repetition_count},
                     {"threads", 1}};
}

// real_time and cpu_time are the same figure: how long the host's thread is inside the call. What
// of it is modelled stands in the host_ and driver_ counters.
void add_time(OrderedJson& entry, std::uint64_t iteration_count, double time_ns) {
  entry["iterations"] = iteration_count;
  if (std::isfinite(time_ns)) {
    entry["real_time"] = time_ns;
    entry["cpu_time"] = time_ns;
    entry["time_unit"] = "ns";
  }
}

// A cell without numbers, in Google Benchmark's words for an error and for a skip. It is an
// aggregate without times, because compare.py takes the geometric mean over the times of all
// others, where 0 would stand for "infinitely fast".
OrderedJson not_measured(const CellResult& cell, const std::string& run) {
  OrderedJson entry = begin_entry(run, run, "aggregate", 1);
  entry["aggregate_name"] = "median";
  entry["aggregate_unit"] = "time";
  const bool skipped = cell.status == CellStatus::Skipped;
  const std::string reason = cell.reason.empty() ? std::string() : ": " + cell.reason;
  entry[skipped ? "skipped" : "error_occurred"] = true;
  entry[skipped ? "skip_message" : "error_message"] = std::string(to_string(cell.status)) + reason;
  entry["iterations"] = 0;
  return entry;
}

void add_cell(OrderedJson& benchmarks, const CellResult& cell,
              const BenchmarkOperation& operation) {
  const std::string run = run_name(cell.key, operation);
  if (!is_measured(cell)) {
    benchmarks.push_back(not_measured(cell, run));
    return;
  }
  const LatencySummary& total = (cell.*operation.latency).total;
  // No such call was made: there is no time to report, and 0 would read as one.
  if (total.count == 0) return;
  const std::size_t pass_count = cell.passes.size();
  if (pass_count < 2) {
    OrderedJson entry = begin_entry(run, run, "iteration", 1);
    entry["repetition_index"] = 0;
    add_time(entry, total.count, total.p50_ns);
    add_counters(entry, cell, operation);
    benchmarks.push_back(std::move(entry));
    return;
  }
  for (std::size_t pass = 0; pass < pass_count; ++pass) {
    OrderedJson entry = begin_entry(run, run, "iteration", pass_count);
    entry["repetition_index"] = pass;
    add_time(entry, total.count / pass_count, cell.passes[pass].*operation.pass_p50);
    benchmarks.push_back(std::move(entry));
  }
  OrderedJson entry = begin_entry(run + "_median", run, "aggregate", pass_count);
  entry["aggregate_name"] = "median";
  entry["aggregate_unit"] = "time";
  add_time(entry, pass_count, total.p50_ns);
  add_counters(entry, cell, operation);
  benchmarks.push_back(std::move(entry));
}

}  // namespace

void write_google_benchmark(const Environment& environment, const CellSource& cells,
                            const TextSink& sink) {
  // The document without its entries, which go between its brackets one cell at a time.
  const std::string empty = json_text(
      OrderedJson{{"context", context(environment)}, {"benchmarks", OrderedJson::array()}}, 1);
  sink(std::string_view(empty).substr(0, empty.rfind(']')));
  bool any = false;
  for (std::size_t index = 0; index < cells.count; ++index) {
    OrderedJson benchmarks = OrderedJson::array();
    const CellResult& cell = cells.whole(index);
    for (const BenchmarkOperation& operation : kBenchmarkOperations)
      add_cell(benchmarks, cell, operation);
    if (benchmarks.empty()) continue;
    // "[\n {...},\n {...}\n]", one column further to the right.
    std::string entries = json_text(benchmarks, 1);
    entries = entries.substr(1, entries.size() - 3);
    for (std::size_t at = 0; (at = entries.find('\n', at)) != std::string::npos; at += 2) {
      entries.insert(at + 1, 1, ' ');
    }
    sink((any ? "," : "") + entries);
    any = true;
  }
  sink(any ? "\n ]\n}\n" : "]\n}\n");
}

}  // namespace allocmark
