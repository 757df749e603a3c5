// See card_choice.h.
#include "harness/shell/question/card_choice.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/own_process.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/core/run/environment.h"
#include "harness/core/search/advice.h"
#include "harness/core/search/target.h"
#include "results/answer/answer.h"

namespace allocmark {
namespace {

std::string seconds(std::uint64_t value_ns) {
  const double value = static_cast<double>(value_ns);
  return value < 1e9 ? fmt::format("{:.0f} ms", value / 1e6) : fmt::format("{:.2f} s", value / 1e9);
}

std::string card_text(const CardRoom& card) {
  return fmt::format("{} ({}, {}, leaves {} at least)", card.device, card.gpu_name,
                     format_bytes(card.total_bytes), format_bytes(card.usable_bytes));
}

// The setting that needs least, and unset.
struct Needs {
  const SettingFacts* best = nullptr;
  const SettingFacts* unset = nullptr;
};

Needs needs_of(const SearchResult& result) {
  Needs needs;
  for (const SettingFacts& facts : result.settings) {
    if (!facts.least_bytes) continue;
    if (facts.conf.empty()) needs.unset = &facts;
    if (needs.best == nullptr || *facts.least_bytes < *needs.best->least_bytes) needs.best = &facts;
  }
  return needs;
}

nlohmann::ordered_json card_json(const CardRoom* card, const SettingFacts& facts) {
  if (card == nullptr) return nullptr;
  return {{"device", card->device},
          {"gpu_name", card->gpu_name},
          {"total_bytes", card->total_bytes},
          {"usable_bytes", card->usable_bytes},
          {"conf", facts.conf}};
}

std::uint64_t p99_of(const CellResult& cell) {
  const std::optional<CellCost> cost = cost_of(cell, CostMetric::RequestP99);
  return cost ? static_cast<std::uint64_t>(cost->value_ns) : 0;
}

}  // namespace

std::uint64_t least_need(const SearchResult& result) {
  const Needs needs = needs_of(result);
  return needs.best == nullptr ? result.needed_bytes : *needs.best->least_bytes;
}

std::vector<CardRoom> cards_by_room(const LoadedLibraries& loaded) {
  std::vector<CardRoom> rooms;
  const auto add = [&](std::string device, std::string gpu_name, std::uint64_t total_bytes) {
    const std::uint64_t kept_bytes = outside_memory(device, loaded).high_bytes;
    if (total_bytes <= kept_bytes) return;
    rooms.push_back({.device = std::move(device),
                     .gpu_name = std::move(gpu_name),
                     .total_bytes = total_bytes,
                     .usable_bytes = total_bytes - kept_bytes});
  };
  for (const Card& card : known_cards()) {
    // What fits beside a host depends on the host.
    const bool is_own = !card.host || card.host->reserve_bytes == 0;
    if (is_own && !card.name.ends_with("-laptop"))
      add("sim:" + card.name, card.gpu_name, card.total_bytes);
  }
  for (const std::string& device : simulated_devices()) {
    const DeviceAnswer answer = describe_device(device, own_program_path());
    if (answer.failure.empty()) add(device, answer.facts.gpu_name, answer.facts.gpu_memory_bytes);
  }
  std::ranges::stable_sort(rooms, {}, &CardRoom::total_bytes);
  return rooms;
}

std::vector<CardRoom> cards_of_job(const std::string& typed, const std::string& workload,
                                   std::uint64_t seed) {
  const auto source = open_workload_with_kernels(workload, seed);
  return cards_by_room(libraries_of(typed, source->header().jobs.size()));
}

const CardRoom* smallest_card(const std::vector<CardRoom>& cards, std::uint64_t needed_bytes) {
  const auto found = std::ranges::find_if(
      cards, [&](const CardRoom& card) { return card.usable_bytes >= needed_bytes; });
  return found == cards.end() ? nullptr : &*found;
}

std::string smallest_card_text(const SearchResult& result, const std::vector<CardRoom>& cards) {
  const Needs needs = needs_of(result);
  if (needs.best == nullptr) {
    const CardRoom* const least = smallest_card(cards, result.needed_bytes);
    return fmt::format("smallest card: not known, as no setting served the job here; {}.",
                       least == nullptr
                           ? "none leaves what is live at its peak"
                           : "not below " + card_text(*least) + ". Without --device it is found");
  }
  const CardRoom* const best = smallest_card(cards, *needs.best->least_bytes);
  if (best == nullptr) {
    return fmt::format("smallest card: none of 'allocmark list cards' leaves {}.",
                       format_bytes(*needs.best->least_bytes));
  }
  const CardRoom* const unset =
      needs.unset == nullptr ? nullptr : smallest_card(cards, *needs.unset->least_bytes);
  if (unset == best) return fmt::format("smallest card: {}, unset.", card_text(*best));
  std::string text =
      fmt::format("smallest card: {} with {}", card_text(*best), setting_text(needs.best->conf));
  if (unset != nullptr) return fmt::format("{}; unset {}.", text, card_text(*unset));
  return text + (needs.unset == nullptr ? "." : "; unset none.");
}

nlohmann::ordered_json smallest_card_json(const SearchResult& result,
                                          const std::vector<CardRoom>& cards) {
  const Needs needs = needs_of(result);
  nlohmann::ordered_json json = {{"best", nullptr}, {"unset", nullptr}};
  for (const auto& [name, facts] : {std::pair{"best", needs.best}, {"unset", needs.unset}}) {
    if (facts != nullptr) json[name] = card_json(smallest_card(cards, *facts->least_bytes), *facts);
  }
  return json;
}

TargetAnswer answer_target(const TargetQuestion& question, const std::vector<CardRoom>& cards,
                           const std::vector<CellResult>& cells) {
  TargetAnswer answer{.target_ns = question.target_ns};
  const std::optional<std::uint64_t> p99_ns = served_p99_ns(question.workload, question.seed);
  if (!p99_ns) {
    throw UsageError({.what = "this workload answers no requests",
                      .where = "--target",
                      .wanted = "a server, as serve:llama-3-8b",
                      .got = question.typed,
                      .next = "leave --target out"});
  }
  answer.server_p99_ns = *p99_ns;
  for (const CellResult& cell : cells) {
    const bool serves = outcome_of(cell) == Outcome::Ok;
    const std::uint64_t cell_ns = p99_of(cell);
    const bool keeps = serves && cell_ns > 0 && cell_ns <= question.target_ns;
    (keeps ? answer.keeping : answer.missing)
        .push_back(fmt::format("{} ({})", setting_text(cell.key.conf),
                               serves && cell_ns > 0 ? seconds(cell_ns) : "out of memory"));
  }
  answer.load = largest_load(question.workload, question.seed, question.target_ns);
  for (const CardRoom& card : cards) {
    if (card.usable_bytes < question.needed_bytes) continue;
    const std::optional<ServingCard> figures = serving_card_of(card.device, card.gpu_name);
    if (!figures) continue;
    const std::string placed = define_workload_on_card(question.typed, *figures);
    const std::uint64_t card_ns =
        served_p99_ns(placed.empty() ? question.typed : placed, question.seed).value_or(0);
    if (card_ns > question.target_ns) continue;
    answer.card = card;
    answer.card_p99_ns = card_ns;
    break;
  }
  return answer;
}

std::vector<std::string> target_lines(const TargetAnswer& answer, const TargetQuestion& question) {
  std::vector<std::string> lines;
  const std::string target = seconds(answer.target_ns);
  if (answer.server_p99_ns > answer.target_ns) {
    lines.push_back(fmt::format(
        "target: request P99 of {}: no setting can keep it here. The server itself takes "
        "{} on {}, with an allocator that costs nothing.",
        target, seconds(answer.server_p99_ns), question.gpu_name));
  } else {
    std::string text = fmt::format("target: request P99 of {}: the server itself takes {} on {}",
                                   target, seconds(answer.server_p99_ns), question.gpu_name);
    if (!answer.keeping.empty())
      text += fmt::format("; kept with {}", fmt::join(answer.keeping, ", "));
    if (!answer.missing.empty())
      text += fmt::format("; not kept with {}", fmt::join(answer.missing, ", "));
    lines.push_back(text + ".");
  }
  if (answer.load) {
    lines.push_back(
        *answer.load == 0
            ? "load: not kept with one request a minute either: the card is too slow for the "
              "longest requests."
            : fmt::format("load: kept here up to about {} requests a minute (per_minute={}).",
                          *answer.load, *answer.load));
  }
  if (answer.card) {
    lines.push_back(fmt::format("card: the smallest that keeps it at this load is {}, at {}.",
                                card_text(*answer.card), seconds(answer.card_p99_ns)));
  } else {
    lines.push_back("card: none of 'allocmark list cards' keeps it at this load.");
  }
  return lines;
}

nlohmann::ordered_json target_json(const TargetAnswer& answer) {
  nlohmann::ordered_json json = {
      {"p99_ns", answer.target_ns},  {"server_p99_ns", answer.server_p99_ns},
      {"kept_with", answer.keeping}, {"not_kept_with", answer.missing},
      {"per_minute_max", nullptr},   {"smallest_card", nullptr}};
  if (answer.load) json["per_minute_max"] = *answer.load;
  if (answer.card) {
    json["smallest_card"] = {{"device", answer.card->device}, {"p99_ns", answer.card_p99_ns}};
  }
  return json;
}

}  // namespace allocmark
