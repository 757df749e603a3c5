// See threads_process.h.
#include "harness/threads/threads_process.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/bytes.h"
#include "base/error.h"
#include "base/field_count.h"
#include "base/json_text.h"
#include "harness/run/devices_child.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A new field is sent below, both ways, or does not reach the other process.
static_assert(field_count<ThreadsSpec>() == 12 && field_count<ThreadsRow>() == 12 &&
              field_count<LatencySummary>() == 7 && field_count<CountRange>() == 2);

OrderedJson to_json(const LatencySummary& latency) {
  return {{"count", latency.count},    {"p50_ns", latency.p50_ns},   {"p90_ns", latency.p90_ns},
          {"p99_ns", latency.p99_ns},  {"p999_ns", latency.p999_ns}, {"max_ns", latency.max_ns},
          {"mean_ns", latency.mean_ns}};
}

LatencySummary latency_of(const OrderedJson& json) {
  return {.count = json.at("count").get<std::uint64_t>(),
          .p50_ns = json.at("p50_ns").get<double>(),
          .p90_ns = json.at("p90_ns").get<double>(),
          .p99_ns = json.at("p99_ns").get<double>(),
          .p999_ns = json.at("p999_ns").get<double>(),
          .max_ns = json.at("max_ns").get<double>(),
          .mean_ns = json.at("mean_ns").get<double>()};
}

CountRange range_of(const OrderedJson& json, const std::string& name) {
  return {.low = json.at(name + "_low").get<std::uint64_t>(),
          .high = json.at(name + "_high").get<std::uint64_t>()};
}

OrderedJson to_json(const ThreadsRow& row) {
  return {{"thread_count", row.thread_count},
          {"call_count", row.call_count},
          {"allocate_latency", to_json(row.allocate)},
          {"deallocate_latency", to_json(row.deallocate)},
          {"calls_per_s", row.calls_per_s},
          {"slowest_over_fastest", row.slowest_over_fastest},
          {"off_cpu_share", row.off_cpu_share},
          {"wait_count", row.wait_count},
          {"preemption_count", row.preemption_count},
          {"oom_count_low", row.oom_count.low},
          {"oom_count_high", row.oom_count.high},
          {"reserved_bytes_end_low", row.reserved_bytes_end.low},
          {"reserved_bytes_end_high", row.reserved_bytes_end.high},
          {"is_repeatable", row.is_repeatable}};
}

ThreadsRow threads_row_of(const OrderedJson& json) {
  return {.thread_count = json.at("thread_count").get<std::uint32_t>(),
          .call_count = json.at("call_count").get<std::uint64_t>(),
          .allocate = latency_of(json.at("allocate_latency")),
          .deallocate = latency_of(json.at("deallocate_latency")),
          .calls_per_s = json.at("calls_per_s").get<double>(),
          .slowest_over_fastest = json.at("slowest_over_fastest").get<double>(),
          .off_cpu_share = json.at("off_cpu_share").get<double>(),
          .wait_count = json.at("wait_count").get<std::uint64_t>(),
          .preemption_count = json.at("preemption_count").get<std::uint64_t>(),
          .oom_count = range_of(json, "oom_count"),
          .reserved_bytes_end = range_of(json, "reserved_bytes_end"),
          .is_repeatable = json.at("is_repeatable").get<bool>()};
}

[[noreturn]] void reject_message(const char* what, const std::exception& error) {
  throw UsageError({.what = fmt::format("these are no {} of threads", what),
                    .where = "the pipe between 'allocmark threads' and its process",
                    .wanted = "what this version writes",
                    .got = json_reason(error),
                    .next = "use: allocmark threads"});
}

std::string ns_text(double ns) {
  return ns < 10'000 ? fmt::format("{:.0f} ns", ns) : fmt::format("{:.1f} us", ns / 1000);
}

std::string devices_text(const ThreadsSpec& spec) {
  constexpr std::string_view kTables[] = {"", ", one table of blocks with one lock",
                                          ", one table of blocks in parts"};
  return (spec.device_count == 1 ? std::string() : fmt::format(", {} devices", spec.device_count)) +
         std::string(kTables[static_cast<std::size_t>(spec.table)]);
}

std::string range_text(const CountRange& range, std::string (*text)(std::uint64_t)) {
  if (range.low == range.high) return text(range.low);
  return text(range.low) + " to " + text(range.high);
}

}  // namespace

std::string to_json_line(const ThreadsSpec& spec) {
  return json_text(OrderedJson{{"workload", spec.workload},
                               {"seed", spec.seed},
                               {"allocator", spec.allocator},
                               {"conf", spec.conf},
                               {"capacity", spec.capacity},
                               {"thread_counts", spec.thread_counts},
                               {"in_turns", spec.order == ThreadOrder::Turns},
                               {"shares_streams", spec.shares_streams},
                               {"pass_count", spec.pass_count},
                               {"turn_event_count", spec.turn_event_count},
                               {"device_count", spec.device_count},
                               {"table", static_cast<int>(spec.table)}});
}

ThreadsSpec threads_spec_from_json(std::string_view text) {
  try {
    const OrderedJson json = parse_ordered_json(text);
    return {.workload = json.at("workload").get<std::string>(),
            .seed = json.at("seed").get<std::uint64_t>(),
            .allocator = json.at("allocator").get<std::string>(),
            .conf = json.at("conf").get<std::string>(),
            .capacity = json.at("capacity").get<std::string>(),
            .thread_counts = json.at("thread_counts").get<std::vector<std::uint32_t>>(),
            .order = json.at("in_turns").get<bool>() ? ThreadOrder::Turns : ThreadOrder::Free,
            .shares_streams = json.at("shares_streams").get<bool>(),
            .pass_count = json.at("pass_count").get<std::uint32_t>(),
            .turn_event_count = json.at("turn_event_count").get<std::uint32_t>(),
            .device_count = json.at("device_count").get<std::uint32_t>(),
            .table = static_cast<TableLock>(json.at("table").get<std::uint8_t>())};
  } catch (const OrderedJson::exception& error) {
    reject_message("words", error);
  }
}

std::string to_json(const std::vector<ThreadsRow>& rows) {
  OrderedJson list = OrderedJson::array();
  for (const ThreadsRow& row : rows) list.push_back(to_json(row));
  return json_text(OrderedJson{{"kind", "threads"}, {"schema_version", "1.0.0"}, {"rows", list}});
}

std::vector<ThreadsRow> threads_rows_from_json(std::string_view text) {
  try {
    std::vector<ThreadsRow> rows;
    const OrderedJson json = parse_ordered_json(text);
    for (const OrderedJson& row : json.at("rows")) rows.push_back(threads_row_of(row));
    return rows;
  } catch (const OrderedJson::exception& error) {
    reject_message("numbers", error);
  }
}

std::vector<ThreadsRow> run_threads_in_child(const ThreadsSpec& spec, const ThreadsPlace& place) {
  return threads_rows_from_json(ask_devices_child({.program_path = place.program_path,
                                                   .device = place.device,
                                                   .device_count = spec.device_count,
                                                   .mode = "--threads",
                                                   .what = "the threads"},
                                                  to_json_line(spec)));
}

std::string render_threads(const ThreadsSpec& spec, const std::vector<ThreadsRow>& rows) {
  const bool in_turns = spec.order == ThreadOrder::Turns;
  std::string text = fmt::format(
      "{} on {}{}{} at {}, {}, {}, {} passes{}\n", printable(spec.workload), spec.allocator,
      spec.conf.empty() ? "" : "=", printable(spec.conf), printable(spec.capacity),
      spec.shares_streams ? "shared streams" : "streams of their own",
      in_turns ? fmt::format("in turns of {} events", spec.turn_event_count)
               : std::string("in free order"),
      spec.pass_count, devices_text(spec));
  text += fmt::format("{:>7}  {:>12}  {:>9}  {:>9}  {:>9}  {:>11}  {:>8}  {:>9}  {:>6}  {}\n",
                      "threads", "allocate P50", "P99", "free P50", "P99", "calls/s", "slow/fast",
                      "off CPU", "failed", "reserved");
  for (const ThreadsRow& row : rows) {
    text += fmt::format(
        "{:>7}  {:>12}  {:>9}  {:>9}  {:>9}  {:>11.0f}  {:>8.2f}  {:>9}  {:>6}  {}{}\n",
        row.thread_count, ns_text(row.allocate.p50_ns), ns_text(row.allocate.p99_ns),
        ns_text(row.deallocate.p50_ns), ns_text(row.deallocate.p99_ns), row.calls_per_s,
        row.slowest_over_fastest,
        in_turns ? std::string("-") : fmt::format("{:.1f} %", row.off_cpu_share * 100),
        range_text(row.oom_count, [](std::uint64_t count) { return std::to_string(count); }),
        range_text(row.reserved_bytes_end, [](std::uint64_t size) { return format_bytes(size); }),
        row.is_repeatable ? ", the same every pass" : "");
  }
  return text;
}

}  // namespace allocmark
