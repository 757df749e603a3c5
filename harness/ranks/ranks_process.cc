// See ranks_process.h.
#include "harness/ranks/ranks_process.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/bytes.h"
#include "base/error.h"
#include "base/field_count.h"
#include "base/json_text.h"
#include "harness/ranks/findings.h"
#include "harness/run/devices_child.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A new field is sent below, both ways, or does not reach the other process.
static_assert(field_count<RankSpec>() == 3 && field_count<RanksSpec>() == 5 &&
              field_count<RankFailure>() == 7 && field_count<RankStall>() == 5 &&
              field_count<RankRow>() == 15);

OrderedJson time_or_null(const std::optional<std::uint64_t>& number) {
  return number ? OrderedJson(*number) : OrderedJson();
}

std::optional<std::uint64_t> number_of(const OrderedJson& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<std::uint64_t>();
}

OrderedJson to_json(const RankFailure& failure) {
  return {{"event_index", failure.event_index},
          {"asked_bytes", failure.asked_bytes},
          {"free_bytes", failure.free_bytes},
          {"live_bytes", failure.live_bytes},
          {"reserved_bytes", failure.reserved_bytes},
          {"step", failure.step},
          {"time_ns", failure.time_ns}};
}

RankFailure failure_of(const OrderedJson& json) {
  return {.event_index = json.at("event_index").get<std::uint64_t>(),
          .asked_bytes = json.at("asked_bytes").get<std::uint64_t>(),
          .free_bytes = json.at("free_bytes").get<std::uint64_t>(),
          .live_bytes = json.at("live_bytes").get<std::uint64_t>(),
          .reserved_bytes = json.at("reserved_bytes").get<std::uint64_t>(),
          .step = json.at("step").get<std::string>(),
          .time_ns = json.at("time_ns").get<std::uint64_t>()};
}

OrderedJson to_json(const RankStall& stall) {
  return {{"meeting", stall.meeting},
          {"meeting_number", stall.number},
          {"step", stall.step},
          {"since_ns", stall.since_ns},
          {"missing_ranks", stall.missing}};
}

RankStall stall_of(const OrderedJson& json) {
  return {.meeting = json.at("meeting").get<std::string>(),
          .number = json.at("meeting_number").get<std::uint64_t>(),
          .step = json.at("step").get<std::string>(),
          .since_ns = json.at("since_ns").get<std::uint64_t>(),
          .missing = json.at("missing_ranks").get<std::vector<std::uint32_t>>()};
}

const char* end_word(const RankRow& row) {
  if (row.stall) return "waits";
  return row.failure ? "failed" : "done";
}

OrderedJson to_json(const RankRow& row) {
  return {{"rank", row.number},
          {"workload", row.workload},
          {"status", end_word(row)},
          {"capacity_bytes", row.capacity_bytes},
          {"requested_bytes_peak", row.requested_bytes_peak},
          {"device_bytes_peak", row.device_bytes_peak},
          {"request_count", row.request_count},
          {"oom_count", row.oom_count},
          {"retry_count", row.retry_count},
          {"meeting_count", row.meeting_count},
          {"end_ns", time_or_null(row.end_ns)},
          {"wait_ns", time_or_null(row.wait_ns)},
          {"delay_ns", time_or_null(row.delay_ns)},
          {"failure", row.failure ? to_json(*row.failure) : OrderedJson()},
          {"stall", row.stall ? to_json(*row.stall) : OrderedJson()},
          {"step_live_bytes", row.step_live_bytes}};
}

RankRow row_of(const OrderedJson& json) {
  RankRow row;
  json.at("rank").get_to(row.number);
  json.at("workload").get_to(row.workload);
  json.at("capacity_bytes").get_to(row.capacity_bytes);
  json.at("requested_bytes_peak").get_to(row.requested_bytes_peak);
  json.at("device_bytes_peak").get_to(row.device_bytes_peak);
  json.at("request_count").get_to(row.request_count);
  json.at("oom_count").get_to(row.oom_count);
  json.at("retry_count").get_to(row.retry_count);
  json.at("meeting_count").get_to(row.meeting_count);
  row.end_ns = number_of(json.at("end_ns"));
  row.wait_ns = number_of(json.at("wait_ns"));
  row.delay_ns = number_of(json.at("delay_ns"));
  if (!json.at("failure").is_null()) row.failure = failure_of(json.at("failure"));
  if (!json.at("stall").is_null()) row.stall = stall_of(json.at("stall"));
  json.at("step_live_bytes").get_to(row.step_live_bytes);
  return row;
}

[[noreturn]] void reject(const char* what, const std::exception& error) {
  throw UsageError({.what = fmt::format("these are no {} of ranks", what),
                    .where = "the pipe between 'allocmark ranks' and its process",
                    .wanted = "what this version writes",
                    .got = json_reason(error),
                    .next = "use: allocmark ranks"});
}

std::string ms_text(const std::optional<std::uint64_t>& ns) {
  return ns ? fmt::format("{:.3f}", static_cast<double>(*ns) * 1e-6) : "-";
}

}  // namespace

std::string to_json_line(const RanksSpec& spec) {
  OrderedJson ranks = OrderedJson::array();
  for (const RankSpec& rank : spec.ranks) {
    ranks.push_back(
        {{"rank", rank.number}, {"workload", rank.workload}, {"capacity", rank.capacity}});
  }
  return json_text(OrderedJson{{"ranks", ranks},
                               {"seed", spec.seed},
                               {"allocator", spec.allocator},
                               {"conf", spec.conf},
                               {"stops_on_oom", spec.stops_on_oom}});
}

RanksSpec ranks_spec_from_json(std::string_view text) {
  try {
    const OrderedJson json = parse_ordered_json(text);
    RanksSpec spec;
    for (const OrderedJson& rank : json.at("ranks")) {
      spec.ranks.push_back({.number = rank.at("rank").get<std::uint32_t>(),
                            .workload = rank.at("workload").get<std::string>(),
                            .capacity = rank.at("capacity").get<std::string>()});
    }
    json.at("seed").get_to(spec.seed);
    json.at("allocator").get_to(spec.allocator);
    json.at("conf").get_to(spec.conf);
    json.at("stops_on_oom").get_to(spec.stops_on_oom);
    return spec;
  } catch (const OrderedJson::exception& error) {
    reject("words", error);
  }
}

std::string to_json(const std::vector<RankRow>& rows) {
  OrderedJson ranks = OrderedJson::array();
  for (const RankRow& row : rows) ranks.push_back(to_json(row));
  OrderedJson findings = OrderedJson::array();
  for (const RankFinding& finding : findings_of(rows)) {
    findings.push_back(
        {{"kind", finding_name(finding.kind)}, {"rank", finding.rank}, {"text", finding.text}});
  }
  return json_text(OrderedJson{
      {"kind", "ranks"}, {"schema_version", "1.0.0"}, {"ranks", ranks}, {"findings", findings}});
}

std::vector<RankRow> rank_rows_from_json(std::string_view text) {
  try {
    std::vector<RankRow> rows;
    const OrderedJson json = parse_ordered_json(text);
    for (const OrderedJson& row : json.at("ranks")) rows.push_back(row_of(row));
    return rows;
  } catch (const OrderedJson::exception& error) {
    reject("numbers", error);
  }
}

std::vector<RankRow> run_ranks_in_child(const RanksSpec& spec, const RanksPlace& place) {
  return rank_rows_from_json(ask_devices_child({.program_path = place.program_path,
                                                .device = place.device,
                                                .device_count = spec.ranks.size(),
                                                .mode = "--ranks",
                                                .what = "the ranks"},
                                               to_json_line(spec)));
}

std::string render_ranks(const RanksSpec& spec, const std::vector<RankRow>& rows) {
  std::string text = fmt::format(
      "{} ranks on {}{}{}, each on its own device; a rank {} its first failed request\n",
      rows.size(), spec.allocator, spec.conf.empty() ? "" : "=", printable(spec.conf),
      spec.stops_on_oom ? "ends with" : "goes on after");
  text += fmt::format("{:>4}  {:>10}  {:>10}  {:>10}  {:>6}  {:>7}  {:>8}  {:>10}  {:>10}  {}\n",
                      "rank", "memory", "asked peak", "taken peak", "failed", "retries", "meetings",
                      "waited, ms", "delay, ms", "end");
  for (const RankRow& row : rows) {
    text += fmt::format("{:>4}  {:>10}  {:>10}  {:>10}  {:>6}  {:>7}  {:>8}  {:>10}  {:>10}  {}\n",
                        row.number, format_bytes(row.capacity_bytes),
                        format_bytes(row.requested_bytes_peak), format_bytes(row.device_bytes_peak),
                        row.oom_count, row.retry_count, row.meeting_count, ms_text(row.wait_ns),
                        ms_text(row.delay_ns), end_word(row));
  }
  const std::vector<RankFinding> findings = findings_of(rows);
  if (findings.empty()) text += "no rank stands out\n";
  const bool any_meets = std::ranges::any_of(
      rows, [](const RankRow& row) { return row.meeting_count > 0 || row.failure || row.stall; });
  if (!any_meets) text += "no rank meets another: their traces have no marks of meetings\n";
  for (const RankFinding& finding : findings) text += finding.text + "\n";
  return text;
}

}  // namespace allocmark
