// See estimate_print.h.
#include "harness/tools/estimate/estimate_print.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/json_text.h"
#include "harness/core/search/advice.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

// What nvidia-smi shows for a setting.
struct Shown {
  std::uint64_t bytes = 0, low_bytes = 0, high_bytes = 0;
};

Shown shown_of(const EstimateAnswer& answer, const SettingEstimate& setting) {
  const std::uint64_t graphs_bytes = graphs_own_bytes(setting.captures);
  const auto percent = [&](double more) {
    return static_cast<std::uint64_t>(static_cast<double>(setting.reserved_bytes) *
                                      (1 + more / 100));
  };
  return {.bytes = setting.reserved_bytes + answer.outside.total_bytes() + graphs_bytes,
          .low_bytes = percent(answer.spread.low) + answer.outside.low_bytes,
          .high_bytes = percent(answer.spread.high) + answer.outside.high_bytes + 2 * graphs_bytes};
}

CardFit fit_on(const EstimateAnswer& answer, const SettingEstimate& setting, const CardRoom& card) {
  const OutsideMemory outside = outside_memory(card.device, answer.loaded);
  return fit_of(answer.estimate, setting, outside, card.total_bytes);
}

// The smallest that holds the job for sure; null where none does.
const CardRoom* smallest_of(const EstimateAnswer& answer, const SettingEstimate& setting) {
  for (const CardRoom& card : answer.cards) {
    const CardFit fit = fit_on(answer, setting, card);
    if (fit == CardFit::WithRoom || fit == CardFit::AfterFlush) return &card;
  }
  return nullptr;
}

OrderedJson uses_json(const std::vector<std::uint64_t>& by_use) {
  OrderedJson json = OrderedJson::object();
  for (std::size_t at = 0; at < by_use.size(); ++at) {
    json[std::string(memory_use_name(static_cast<MemoryUse>(at))) + "_bytes"] = by_use[at];
  }
  return json;
}

OrderedJson captures_json(const CaptureFacts& captures) {
  return {{"graph_count", captures.graph_count},
          {"pool_bytes", captures.bytes},
          {"own_bytes", graphs_own_bytes(captures)},
          {"vllm_rule_bytes", vllm_rule_bytes(captures)}};
}

OrderedJson setting_json(const EstimateAnswer& answer, const SettingEstimate& setting) {
  if (!setting.failure.empty()) return {{"conf", setting.conf}, {"failure", setting.failure}};
  const Shown shown = shown_of(answer, setting);
  OrderedJson phases = OrderedJson::object();
  for (std::size_t at = 0; at < setting.reserved_by_phase.size(); ++at) {
    phases[answer.estimate.phases[at].name] = setting.reserved_by_phase[at];
  }
  OrderedJson cards = OrderedJson::array();
  for (const CardRoom& card : answer.cards) {
    const CardFit fit = fit_on(answer, setting, card);
    cards.push_back(
        {{"device", card.device}, {"total_bytes", card.total_bytes}, {"fit", fit_word(fit)}});
  }
  const CardRoom* const smallest = smallest_of(answer, setting);
  return {{"conf", setting.conf},
          {"allocated_bytes",
           setting.allocated_bytes ? OrderedJson(*setting.allocated_bytes) : OrderedJson()},
          {"reserved_bytes", setting.reserved_bytes},
          {"reserved_bytes_by_phase", phases},
          {"captures", captures_json(setting.captures)},
          {"shown_bytes", shown.bytes},
          {"shown_low_bytes", shown.low_bytes},
          {"shown_high_bytes", shown.high_bytes},
          {"fit", fit_word(fit_of(answer.estimate, setting, answer.outside, answer.card_bytes))},
          {"smallest_card", smallest == nullptr ? OrderedJson() : OrderedJson(smallest->device)},
          {"cards", cards},
          {"failure", ""}};
}

std::string use_words(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

// Phases as rows, kinds as columns; a kind that is nowhere has no column.
TableRows phase_rows(const EstimateAnswer& answer) {
  const std::vector<PhasePeak>& phases = answer.estimate.phases;
  std::vector<std::size_t> uses;
  for (std::size_t use = 0; use < kMemoryUseCount; ++use) {
    const bool is_seen = std::ranges::any_of(
        phases, [&](const PhasePeak& phase) { return phase.by_use[use] >= kMiB; });
    if (is_seen) uses.push_back(use);
  }
  TableRows rows{{"phase", "live"}};
  for (const std::size_t use : uses) {
    rows.front().push_back(use_words(memory_use_name(static_cast<MemoryUse>(use))));
  }
  rows.front().emplace_back("reserved");
  const SettingEstimate& first = answer.estimate.settings.front();
  for (std::size_t at = 0; at < phases.size(); ++at) {
    const PhasePeak& phase = phases[at];
    rows.push_back({phase.name + (at == answer.estimate.peak_phase ? " *" : ""),
                    format_bytes(phase.live_bytes)});
    for (const std::size_t use : uses) rows.back().push_back(format_bytes(phase.by_use[use]));
    const bool is_known = at < first.reserved_by_phase.size();
    rows.back().push_back(is_known ? format_bytes(first.reserved_by_phase[at]) : "");
  }
  return rows;
}

TableRows setting_rows(const EstimateAnswer& answer) {
  TableRows rows{
      {"setting", "allocated", "reserved", "nvidia-smi", "from", "to", "on the card", "smallest"}};
  for (const SettingEstimate& setting : answer.estimate.settings) {
    if (!setting.failure.empty()) {
      rows.push_back({setting_text(setting.conf), "-", "-", "-", "-", "-", "cannot run", ""});
      continue;
    }
    const Shown shown = shown_of(answer, setting);
    const CardRoom* const smallest = smallest_of(answer, setting);
    rows.push_back({setting_text(setting.conf),
                    setting.allocated_bytes ? format_bytes(*setting.allocated_bytes) : "-",
                    format_bytes(setting.reserved_bytes), format_bytes(shown.bytes),
                    format_bytes(shown.low_bytes), format_bytes(shown.high_bytes),
                    fit_word(fit_of(answer.estimate, setting, answer.outside, answer.card_bytes)),
                    smallest == nullptr ? "none" : smallest->device});
  }
  return rows;
}

// Empty where no graph is captured.
TableRows capture_rows(const EstimateAnswer& answer) {
  TableRows rows{
      {"setting", "graphs", "in pools", "the graphs' own", "capture takes", "vLLM's rule"}};
  for (const SettingEstimate& setting : answer.estimate.settings) {
    const CaptureFacts& captures = setting.captures;
    if (captures.graph_count == 0) continue;
    const std::uint64_t own_bytes = graphs_own_bytes(captures);
    rows.push_back({setting_text(setting.conf), fmt::format("{}", captures.graph_count),
                    format_bytes(captures.bytes), format_bytes(own_bytes),
                    format_bytes(captures.bytes + own_bytes),
                    format_bytes(vllm_rule_bytes(captures))});
  }
  if (rows.size() == 1) rows.clear();
  return rows;
}

}  // namespace

const char* fit_word(CardFit fit) {
  constexpr const char* kWords[] = {"fits", "fits, flushing", "unsure", "does not fit"};
  return kWords[static_cast<std::size_t>(fit)];
}

CardFit fit_of(const JobEstimate& estimate, const SettingEstimate& setting,
               const OutsideMemory& outside, std::uint64_t card_bytes) {
  const auto serves = [&](std::uint64_t outside_bytes) {
    const std::uint64_t room = card_bytes - std::min(card_bytes, outside_bytes);
    if (room >= setting.reserved_bytes) return CardFit::WithRoom;
    if (room < estimate.live_bytes) return CardFit::No;
    const auto found = std::ranges::find(setting.rooms, room, &RoomFacts::room_bytes);
    return found != setting.rooms.end() && found->oom_count == 0 ? CardFit::AfterFlush
                                                                 : CardFit::No;
  };
  if (!setting.failure.empty()) return CardFit::No;
  const CardFit at_worst = serves(outside.high_bytes);
  if (at_worst != CardFit::No) return at_worst;
  return serves(outside.low_bytes) == CardFit::No ? CardFit::No : CardFit::Unsure;
}

std::vector<std::uint64_t> rooms_of(const std::vector<CardRoom>& cards,
                                    const LoadedLibraries& loaded) {
  std::vector<std::uint64_t> rooms;
  for (const CardRoom& card : cards) {
    const OutsideMemory outside = outside_memory(card.device, loaded);
    for (const std::uint64_t kept_bytes : {outside.low_bytes, outside.high_bytes}) {
      rooms.push_back(card.total_bytes - std::min(card.total_bytes, kept_bytes));
    }
  }
  std::ranges::sort(rooms);
  rooms.erase(std::unique(rooms.begin(), rooms.end()), rooms.end());
  return rooms;
}

void print_estimate_table(const EstimateAnswer& answer, const JobOptions& job) {
  const JobEstimate& estimate = answer.estimate;
  print_paragraph(
      job, fmt::format("{} on {} ({}, {}), PyTorch {}", answer.workload, answer.device,
                       answer.gpu_name, format_bytes(answer.card_bytes), answer.release_text));
  print_rows(job, phase_rows(answer));
  print_paragraph(job,
                  fmt::format("* the peak: {} live at once. 'live' is what the program asked for, "
                              "'reserved' what PyTorch holds of the card{}.",
                              format_bytes(estimate.live_bytes),
                              estimate.settings.size() > 1
                                  ? ", with " + setting_text(estimate.settings.front().conf)
                                  : ""));
  print_rows(job, setting_rows(answer));
  if (const TableRows rows = capture_rows(answer); !rows.empty()) {
    print_rows(job, rows);
    print_paragraph(job,
                    "capture: what CUDA graphs add to the card when they are captured, with the "
                    "cache in place. vLLM's rule is what its profile would set aside.");
  }
  print_paragraph(
      job, fmt::format("nvidia-smi: reserved, and {} for the CUDA context, {} for kernels and "
                       "libraries ({}).",
                       format_bytes(answer.outside.context_bytes),
                       format_bytes(answer.outside.modules_bytes), answer.outside.basis));
  if (estimate.managed_bytes > 0) {
    print_paragraph(
        job, fmt::format("beside: {} of managed memory, as a paged optimizer's states, outside "
                         "of all numbers above. Its pages move between card and host: the "
                         "host needs room for all of it, and what of it is on the card just "
                         "then nvidia-smi shows as well.",
                         format_bytes(estimate.managed_bytes)));
  }
  for (const std::string& note : answer.notes) print_paragraph(job, "note: " + note);
}

void print_estimate_json(const EstimateAnswer& answer, const JobOptions& job) {
  const JobEstimate& estimate = answer.estimate;
  OrderedJson phases = OrderedJson::array();
  for (const PhasePeak& phase : estimate.phases) {
    phases.push_back({{"name", phase.name},
                      {"live_bytes", phase.live_bytes},
                      {"by_use", uses_json(phase.by_use)}});
  }
  OrderedJson settings = OrderedJson::array();
  for (const SettingEstimate& setting : estimate.settings) {
    settings.push_back(setting_json(answer, setting));
  }
  const OrderedJson json = {
      {"workload", answer.workload},
      {"seed", job.seed},
      {"pytorch", answer.release_text},
      {"device", answer.device},
      {"gpu_name", answer.gpu_name},
      {"gpu_memory_bytes", answer.card_bytes},
      {"request_count", estimate.request_count},
      {"live_bytes", estimate.live_bytes},
      {"managed_bytes", estimate.managed_bytes},
      {"peak_phase", estimate.phases[estimate.peak_phase].name},
      {"by_use", uses_json(estimate.phases[estimate.peak_phase].by_use)},
      {"phases", phases},
      {"outside",
       {{"context_bytes", answer.outside.context_bytes},
        {"modules_bytes", answer.outside.modules_bytes},
        {"low_bytes", answer.outside.low_bytes},
        {"high_bytes", answer.outside.high_bytes},
        {"basis", answer.outside.basis}}},
      {"spread_percent", {{"low", answer.spread.low}, {"high", answer.spread.high}}},
      {"settings", settings},
      {"notes", answer.notes}};
  fmt::print("{}\n", json_text(json, 1));
}

}  // namespace allocmark
