// The threads in a process of their own, and what people and programs read of them (threads.h).
#include "harness/tools/threads/threads.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/bytes.h"
#include "base/field_count.h"
#include "base/json_text.h"
#include "harness/job/job.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A new field is said below, too.
static_assert(field_count<ThreadsRow>() == 13 && field_count<LatencySummary>() == 7 &&
              field_count<CountRange>() == 2);

OrderedJson to_json(const LatencySummary& latency) {
  return {{"count", latency.count},    {"p50_ns", latency.p50_ns},   {"p90_ns", latency.p90_ns},
          {"p99_ns", latency.p99_ns},  {"p999_ns", latency.p999_ns}, {"max_ns", latency.max_ns},
          {"mean_ns", latency.mean_ns}};
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
          {"is_repeatable", row.is_repeatable},
          {"overlap", row.overlap}};
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

constexpr Job<ThreadsSpec, std::vector<ThreadsRow>> kThreads{
    .name = "threads",
    .what = "the threads",
    .run = [](const ThreadsSpec& spec, const Tell<std::vector<ThreadsRow>>& tell) {
      tell(run_threads(spec));
    }};

}  // namespace

std::string to_json(const std::vector<ThreadsRow>& rows) {
  OrderedJson list = OrderedJson::array();
  for (const ThreadsRow& row : rows) list.push_back(to_json(row));
  return json_text(OrderedJson{{"kind", "threads"}, {"schema_version", "1.1.0"}, {"rows", list}});
}

std::vector<ThreadsRow> run_threads_in_child(const ThreadsSpec& spec, const std::string& device) {
  return ask_job(
      kThreads, spec,
      {.device = device, .environment = {{"SIMCUDA_DEVICES", std::to_string(spec.device_count)}}});
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
  for (const ThreadsRow& row : rows) {
    if (row.overlap.empty()) continue;
    text += fmt::format("FAILED: {} threads: {}\n", row.thread_count, printable(row.overlap));
  }
  return text;
}

extern const JobEntry kThreadsJob;
constinit const JobEntry kThreadsJob = job_entry<kThreads>();

}  // namespace allocmark
