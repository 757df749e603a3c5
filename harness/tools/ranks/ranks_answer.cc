// The ranks in a process of their own, and what people and programs read of them (ranks.h).
#include "harness/tools/ranks/ranks.h"

#include <algorithm>
#include <optional>

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
static_assert(field_count<RankFailure>() == 7 && field_count<RankStall>() == 5 &&
              field_count<RankRow>() == 15);

OrderedJson time_or_null(const std::optional<std::uint64_t>& number) {
  return number ? OrderedJson(*number) : OrderedJson();
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

OrderedJson to_json(const RankStall& stall) {
  return {{"meeting", stall.meeting},
          {"meeting_number", stall.number},
          {"step", stall.step},
          {"since_ns", stall.since_ns},
          {"missing_ranks", stall.missing}};
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

std::string ms_text(const std::optional<std::uint64_t>& ns) {
  return ns ? fmt::format("{:.3f}", static_cast<double>(*ns) * 1e-6) : "-";
}

constexpr Job<RanksSpec, std::vector<RankRow>> kRanks{
    .name = "ranks",
    .what = "the ranks",
    .run = [](const RanksSpec& spec, const Tell<std::vector<RankRow>>& tell) {
      tell(run_ranks(spec));
    }};

}  // namespace

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

std::vector<RankRow> run_ranks_in_child(const RanksSpec& spec, const std::string& device) {
  return ask_job(
      kRanks, spec,
      {.device = device, .environment = {{"SIMCUDA_DEVICES", std::to_string(spec.ranks.size())}}});
}

std::string render_ranks(const RanksSpec& spec, const std::vector<RankRow>& rows) {
  std::string text = fmt::format(
      "{} ranks on {}{}{}, each on its own device; a rank {} its first failed request\n",
      rows.size(), spec.allocator, spec.conf.empty() ? "" : "=", printable(spec.conf),
      spec.on_oom == "stop" ? "ends with" : "goes on after");
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

extern const JobEntry kRanksJob;
constinit const JobEntry kRanksJob = job_entry<kRanks>();

}  // namespace allocmark
