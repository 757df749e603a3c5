// What 'advise' prints (advice.h). Decides nothing.
#include "harness/tools/advise/advice.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "allocators/caching/safety.h"
#include "base/bytes.h"
#include "base/json_text.h"
#include "harness/core/run/environment.h"
#include "harness/core/search/advice.h"
#include "harness/core/search/search_process.h"
#include "harness/shell/pages/run_output.h"
#include "harness/shell/question/advise_keys.h"
#include "results/answer/answer.h"
#include "results/answer/answer_parts.h"
#include "results/answer/cause_words.h"
#include "results/answer/facts.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

// The shell line that sets it.
std::string paste_line(const Advice& advice, const std::string& setting) {
  return advice.search.framework ? "export " + setting
                                 : line_to_paste(key_of(advice.search, setting));
}

std::string cost_cell(const std::vector<FinalistCost>& costs, const std::string& conf) {
  const auto found = std::ranges::find(costs, conf, &FinalistCost::conf);
  return found == costs.end() ? "" : milliseconds(found->value_ns);
}

// "request P99, ms".
std::string measured_head(const Measured& measured) {
  switch (measured.answer.metric) {
    case CostMetric::RequestP99:
      return "request P99, ms";
    case CostMetric::WallPerStep:
      return "a step takes, ms";
    case CostMetric::TimePerStep:
      return "measured, ms/step";
    case CostMetric::TimePerPass:
      break;
  }
  return "measured, ms/pass";
}

// Of a verdict's costs.
std::string_view per_of(const std::optional<Measured>& measured) {
  if (!measured || measured->answer.metric == CostMetric::TimePerStep ||
      measured->answer.metric == CostMetric::WallPerStep) {
    return "per step";
  }
  return measured->answer.metric == CostMetric::RequestP99 ? "at request P99" : "per pass";
}

// "0 by luck": it fails with some larger amounts.
std::string failures_text(const SettingFacts& facts, std::uint64_t capacity_bytes) {
  const bool is_lucky = facts.oom_count == 0 && !serves(facts, capacity_bytes);
  return std::to_string(facts.oom_count) + (is_lucky ? " by luck" : "");
}

std::vector<std::size_t> row_order(const SearchResult& search) {
  std::vector<std::size_t> order = ranked_by_cost(search.settings);
  std::vector<std::size_t> failing;
  for (std::size_t at = 0; at < search.settings.size(); ++at) {
    if (search.settings[at].oom_count > 0) failing.push_back(at);
  }
  std::ranges::stable_sort(failing, {},
                           [&](std::size_t at) { return search.settings[at].oom_count; });
  order.insert(order.end(), failing.begin(), failing.end());
  return order;
}

// Of what is shown: the worst over the variants where they were searched.
const SettingFacts& shown_facts(const Advice& advice, const SettingFacts& own) {
  const auto found = std::ranges::find(advice.search.judged, own.conf, &SettingFacts::conf);
  return found == advice.search.judged.end() ? own : *found;
}

TableRows rows_of(const Advice& advice, const std::optional<Measured>& measured,
                  const std::vector<FinalistCost>& costs, bool all) {
  const SearchResult& search = advice.search.own;
  const std::vector<bool> front = pareto_front(search.settings);
  TableRows rows{{"setting", "OOMs", "needs", "reserves", "CUDA calls, ms/step"}};
  if (measured) rows.front().push_back(measured_head(*measured));
  if (all) rows.front().emplace_back("");
  for (const std::size_t at : row_order(search)) {
    const SettingFacts& facts = shown_facts(advice, search.settings[at]);
    const bool is_finalist =
        std::ranges::find(advice.finalists, facts.conf) != advice.finalists.end();
    if (!all && !is_finalist) continue;
    rows.push_back({setting_text(facts.conf), failures_text(facts, search.capacity_bytes),
                    least_text(facts, search), format_bytes(facts.peak_bytes),
                    milliseconds(facts.driver_ns_per_step)});
    if (measured) rows.back().push_back(cost_cell(costs, facts.conf));
    if (all) rows.back().emplace_back(front[at] ? "*" : "");
  }
  return rows;
}

std::vector<std::string> first_column(const TableRows& rows) {
  std::vector<std::string> names;
  for (const std::vector<std::string>& row : rows) names.push_back(row.front());
  return names;
}

// Whose rules were simulated.
std::string models_of(const AdviceSearch& search) {
  if (search.framework) {
    return fmt::format("{}'s allocators as {} model them", search.framework->title,
                       fmt::join(search.framework->allocators(), ", "));
  }
  return fmt::format("PyTorch {}'s allocator, {}", search.release.rules->name(),
                     search.release.basis);
}

std::string basis_of(const Advice& advice, bool all) {
  const SearchResult& search = advice.search.own;
  const std::uint32_t pass_count = std::accumulate(
      search.settings.begin(), search.settings.end(), 0u,
      [](std::uint32_t sum, const SettingFacts& facts) { return sum + facts.pass_count; });
  std::string text = fmt::format(
      "it rests on: {} settings{} and {} passes of {} events without a clock on a simulated {} "
      "({:.1f} s), {} cells measured there; {}.",
      search.settings.size(), all ? "" : " (--all shows them)", pass_count, search.event_count,
      advice.device.gpu_name, advice.search.seconds, advice.cells.size(), models_of(advice.search));
  if (!advice.search.others.empty()) {
    text += fmt::format(
        " {} other seeds and lengths, with the best settings: the table has the "
        "worst of all.",
        advice.search.others.size());
  }
  if (all) text += " * = no other setting needs less memory and costs less.";
  const bool is_open = std::ranges::any_of(
      search.settings, [](const SettingFacts& facts) { return facts.unsettled_bytes > 0; });
  if (is_open) {
    text += fmt::format(" ? = not every larger amount was tried{}.",
                        advice.search.framework ? "" : " ('fit --exact' does)");
  }
  if (!advice.device.times_borrowed_from.empty()) {
    text += " Driver times are borrowed from " + advice.device.times_borrowed_from + ".";
  }
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    text += " Measured times mean little: " + reason + ".";
  }
  if (search.stream_count > 1) {
    text += " Several streams: least memory may shift with the times of their work.";
  }
  return text;
}

// Where no setting helps, the cell that failed says why, and what else does.
const CellResult* failed_cell(const std::optional<Measured>& measured) {
  if (!measured) return nullptr;
  const Answer& answer = measured->answer;
  if (answer.baseline != nullptr && outcome_of(*answer.baseline) == Outcome::Oom)
    return answer.baseline;
  return answer.with_oom.empty() ? nullptr : answer.with_oom.front();
}

struct ToldVerdict {
  JobVerdict judged;
  std::string other_way{};  // of NoSetting
};

ToldVerdict told_verdict(const Advice& advice, const std::optional<Measured>& measured) {
  ToldVerdict told{.judged = judge(advice.search, costs_of(advice, measured), per_of(measured))};
  const AdviceSearch& search = advice.search;
  if (search.is_impossible() && search.limited_card_left_bytes) {
    const Room room{.needed_bytes = search.own.needed_bytes,
                    .there_bytes = search.own.capacity_bytes,
                    .card_left_bytes = search.limited_card_left_bytes};
    told.judged.verdict.why = no_room_words(room);
    if (room.needed_bytes <= *room.card_left_bytes) told.other_way = higher_limit_words();
    return told;
  }
  const CellResult* failed = failed_cell(measured);
  const bool is_none = told.judged.verdict.kind == VerdictKind::NoSetting;
  // Unset is the answer, and was not asked about: what failed is.
  const bool is_beside = told.judged.verdict.kind == VerdictKind::LeaveUnset &&
                         std::ranges::find(advice.search.judged, "", &SettingFacts::conf) ==
                             advice.search.judged.end();
  if ((!is_none && !is_beside) || failed == nullptr) return told;
  if (is_none) told.other_way = other_way(*failed);
  if (const std::string details = failure_details(*failed); !details.empty())
    told.judged.verdict.why += "; " + main_cause_words(*failed) + ": " + details;
  return told;
}

std::string verdict_line(const AdviceSearch& search, const SettingVerdict& verdict,
                         const std::string& other_way) {
  switch (verdict.kind) {
    case VerdictKind::Paste:
      return "answer: paste this line:";
    case VerdictKind::LeaveUnset:
      return search.framework
                 ? fmt::format("answer: leave {}'s memory variables unset", search.framework->title)
                 : "answer: leave PYTORCH_CUDA_ALLOC_CONF unset";
    case VerdictKind::NoSetting:
      break;
  }
  return "answer: no setting can help" + (other_way.empty() ? "" : "; " + other_way);
}

void print_paste(const Advice& advice, const JobOptions& job, const std::string& conf) {
  const std::string line = paste_line(advice, conf);
  if (job.format == "markdown") {
    fmt::print("```\n{}\n```\n\n", line);
  } else {
    fmt::print("  {}\n", line);
  }
}

// What a person should know before the line is pasted.
void print_cautions(const Advice& advice, const JobOptions& job, const SettingVerdict& verdict) {
  if (verdict.kind != VerdictKind::Paste) return;
  if (advice.search.framework) {
    const std::string& note = advice.search.framework->at(verdict.conf).note;
    print_paragraph(job, note.empty() ? "" : "before you set it: " + note);
    return;
  }
  if (const std::string safe = caching::safety_sentence(verdict.conf); !safe.empty()) {
    print_paragraph(job, fmt::format("is it safe? {} (allocmark explain {} has the sources)", safe,
                                     verdict.conf));
  }
  print_paragraph(job, std::string(advice.search.release.rules->variable_note));
}

// The pinned memory of the host, which no setting of the device's memory changes.
void print_host(const Advice& advice, const JobOptions& job, const SettingVerdict& verdict) {
  if (!advice.host) return;
  const PinnedAdvice& pinned = advice.host->pinned;
  print_paragraph(job, "host: " + verdict_text(advice.host->program, pinned) + ".");
  const std::string& conf = pinned.rows.front().conf;
  if (conf.empty()) return;
  if (verdict.kind == VerdictKind::Paste) {
    print_paragraph(job, "for device and host:");
    print_paste(advice, job, verdict.conf + "," + conf);
  } else {
    print_paragraph(job, "for the host:");
    print_paste(advice, job, conf);
  }
}

void print_text(const Advice& advice, const JobOptions& job, bool all) {
  const std::optional<Measured> measured = measured_of(advice.cells);
  const std::vector<FinalistCost> costs = costs_of(advice, measured);
  const ToldVerdict told = told_verdict(advice, measured);
  const JobVerdict& judged = told.judged;
  const SettingVerdict& verdict = judged.verdict;
  if (job.format == "markdown") {
    fmt::print("## {}\n\n**{}**\n\n", markdown_escape(job.workload),
               verdict_line(advice.search, verdict, told.other_way));
  } else {
    print_paragraph(job, verdict_line(advice.search, verdict, told.other_way));
  }
  if (verdict.kind == VerdictKind::Paste) print_paste(advice, job, verdict.conf);
  print_host(advice, job, verdict);
  print_paragraph(job, judged.warning);
  print_paragraph(job, "why: " + verdict.why + ".");
  for (const std::string& conf : advice.finalists) {
    if (conf.empty() || conf == verdict.conf) {
      print_paragraph(job, needs_spread(conf, advice.search, job.seed));
    }
  }
  print_cautions(advice, job, verdict);
  print_paragraph(job, left_out_text(job, advice.search.framework ? std::vector<ForbiddenKey>{}
                                                                  : advice.search.own.forbids));
  if (job.format != "markdown") fmt::print("\n");
  const TableRows rows = rows_of(advice, measured, costs, all);
  print_rows(job, rows);
  if (!advice.search.framework && !advice.search.release.is_known)
    print_paragraph(job, since_text(first_column(rows)));
  print_paragraph(job, fmt::format("memory: {}; {} are there.", needs_sentence(advice.search.own),
                                   format_bytes(advice.search.own.capacity_bytes)));
  if (measured) {
    const Answer& answer = measured->answer;
    const CellResult* unset = advice.search.framework ? cell_of(advice, "") : answer.baseline;
    if (unset != nullptr && outcome_of(*unset) == Outcome::Oom) {
      print_paragraph(job, "unset: " + failure_text(*unset) + ".");
    }
    print_paragraph(job, growth_line(answer, terminal_style()).value_or(""));
  }
  if (advice.target) {
    for (const std::string& line : target_lines(*advice.target, *advice.question)) {
      print_paragraph(job, line);
    }
  }
  print_presets(advice.workload, stdout);
  print_paragraph(job, basis_of(advice, all));
}

nlohmann::ordered_json host_json(const HostAdvice& host) {
  const PinnedRow& best = host.pinned.rows.front();
  return {{"asked_bytes", host.program.asked_bytes_peak},
          {"unset_pinned_bytes", host.pinned.unset.use.pinned_bytes_peak},
          {"exact_pinned_bytes", host.pinned.exact.front().use.pinned_bytes_peak},
          {"conf", best.conf},
          {"pinned_bytes", best.use.pinned_bytes_peak},
          {"pinning_ns", best.use.pinning_ns},
          {"unset_pinning_ns", host.pinned.unset.use.pinning_ns},
          {"why", verdict_text(host.program, host.pinned)}};
}

// What each setting was simulated as.
nlohmann::ordered_json framework_json(const Framework& framework) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const FrameworkSetting& one : framework.settings) {
    settings.push_back({{"setting", one.setting},
                        {"allocator", one.allocator},
                        {"conf", one.conf},
                        {"note", one.note}});
  }
  return {{"name", framework.name}, {"settings", std::move(settings)}};
}

std::string safety_of(const AdviceSearch& search, const SettingVerdict& verdict) {
  if (verdict.kind != VerdictKind::Paste) return "";
  return search.framework ? search.framework->at(verdict.conf).note
                          : caching::safety_sentence(verdict.conf);
}

void print_json(const Advice& advice, const JobOptions& job) {
  constexpr std::string_view kKinds[] = {"paste", "leave_unset", "no_setting"};
  const AdviceSearch& search = advice.search;
  const std::optional<Measured> measured = measured_of(advice.cells);
  const ToldVerdict told = told_verdict(advice, measured);
  const JobVerdict& judged = told.judged;
  const bool is_paste = judged.verdict.kind == VerdictKind::Paste;
  nlohmann::ordered_json json;
  json["verdict"] = {{"kind", kKinds[static_cast<std::size_t>(judged.verdict.kind)]},
                     {"conf", judged.verdict.conf},
                     {"paste", is_paste ? paste_line(advice, judged.verdict.conf) : ""},
                     {"why", judged.verdict.why},
                     {"other_way", told.other_way},
                     {"warning", judged.warning},
                     {"safety", safety_of(search, judged.verdict)}};
  json.update(nlohmann::ordered_json(to_told_json(search.own, true)));
  json["trace_hash"] = fmt::format("{:016x}", search.own.trace_hash);
  json["needs"] = needs_sentence(search.own);
  json["impossible"] = search.is_impossible();
  json["interrupted"] = search.interrupted;
  if (search.framework) {
    json["framework"] = framework_json(*search.framework);
  } else {
    json["release"] = {{"name", search.release.rules->name()}, {"basis", search.release.basis}};
  }
  json["without"] = job.without;
  json["finalists"] = advice.finalists;
  json["variants"] = variants_json(search.others);
  json["times_borrowed_from"] = advice.device.times_borrowed_from;
  json["disturbances"] = advice.disturbances;
  json["answers"] = answers_json(advice.cells);
  if (advice.target) json["target"] = target_json(*advice.target);
  if (advice.host) json["host"] = host_json(*advice.host);
  fmt::print("{}\n", json_text(json, 1));
}

}  // namespace

void print_advice(const Advice& advice, const JobOptions& job, bool all) {
  if (job.format == "json") {
    print_json(advice, job);
  } else {
    print_text(advice, job, all);
  }
}

}  // namespace allocmark
