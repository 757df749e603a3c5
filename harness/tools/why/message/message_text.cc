#include "harness/tools/why/message/message_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

#include "base/json_text.h"
#include "harness/tools/why/message/remedies.h"

namespace allocmark::message {
namespace {

struct Answered {
  const Message* message;
  Verdict verdict;
  Remedy remedy;
};

std::vector<Answered> answers(const FoundMessages& found) {
  std::vector<Answered> all;
  for (const Message& message : found.messages) {
    Verdict verdict = judge(message);
    Remedy remedy = remedy_for(message, verdict);
    all.push_back({&message, std::move(verdict), std::move(remedy)});
  }
  return all;
}

struct Row {
  std::string name;  // in JSON
  std::string label;
  std::string printed;
  std::string meaning;
  std::int64_t bytes = 0;
  bool is_count = false;
};

std::vector<Row> rows_of(const Message& message) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < kQuantityCount; ++i) {
    const auto quantity = static_cast<Quantity>(i);
    const QuantityWords& words = words_of(quantity);
    if (quantity == Quantity::Process) {
      for (const ProcessFigure& process : message.processes) {
        rows.push_back({std::string(words.name), "process " + process.pid, process.memory.printed,
                        std::string(words.meaning), process.memory.bytes});
      }
    }
    const auto& figure = message.figures[i];
    if (!figure) continue;
    rows.push_back({std::string(words.name), std::string(words.label),
                    figure->printed.empty() ? show(*figure) : figure->printed,
                    std::string(words.meaning), figure->bytes, is_count(quantity)});
  }
  return rows;
}

// "PyTorch's message (CUDA, GPU 0), line 3, 8 times"
std::string source_of(const Message& message) {
  std::string place = message.device;
  if (!message.device_index.empty()) {
    place += fmt::format("{}{} {}", place.empty() ? "" : ", ",
                         message.form->family == Family::PyTorch ? "GPU" : "device",
                         message.device_index);
  }
  std::string text = fmt::format("{}{}{}{}, line {}", message.form->name, place.empty() ? "" : " (",
                                 place, place.empty() ? "" : ")", message.line);
  if (message.count > 1) text += fmt::format(", {} times", message.count);
  return text;
}

std::vector<std::string> facts_of(const FoundMessages& found, const Answered& one) {
  std::vector<std::string> facts = one.verdict.facts;
  if (!found.damage.empty())
    facts.push_back(fmt::format("Not all of the text was read: {}.", found.damage));
  for (const std::string& text : one.verdict.contradictions)
    facts.push_back(fmt::format("These figures contradict each other: {}.", text));
  if (std::ranges::any_of(one.message->figures,
                          [](const auto& figure) { return figure && figure->is_decimal; })) {
    facts.push_back(
        "KB, MB and GB of this message count as KiB, MiB and GiB: its program means them so.");
  }
  return facts;
}

constexpr std::size_t kMoreTold = 8;

std::string others_text(const FoundMessages& found, const std::vector<Answered>& all) {
  std::string text;
  for (std::size_t i = 1; i < all.size() && i <= kMoreTold; ++i) {
    text += fmt::format("  {}: {}.\n", source_of(*all[i].message), all[i].verdict.answer);
  }
  const std::uint64_t untold =
      (all.size() > kMoreTold + 1 ? all.size() - kMoreTold - 1 : 0) + found.dropped_count;
  if (untold > 0) text += fmt::format("  and {} more.\n", untold);
  return text;
}

nlohmann::ordered_json facts_json(const Answered& one) {
  nlohmann::ordered_json json = {{"source", one.message->form->name},
                                 {"line", one.message->line},
                                 {"count", one.message->count},
                                 {"device", one.message->device},
                                 {"device_index", one.message->device_index},
                                 {"answer", one.verdict.answer},
                                 {"cause", to_string(one.verdict.cause)},
                                 {"setting_can_help", to_string(one.verdict.help)}};
  json["must_go_bytes"] = one.verdict.must_go_bytes
                              ? nlohmann::ordered_json(*one.verdict.must_go_bytes)
                              : nlohmann::ordered_json();
  json["setting_to_try"] = one.remedy.setting.empty() ? nlohmann::ordered_json()
                                                      : nlohmann::ordered_json(one.remedy.setting);
  json["figures"] = nlohmann::ordered_json::array();
  for (const Row& row : rows_of(*one.message)) {
    nlohmann::ordered_json figure = {
        {"name", row.name}, {"label", row.label}, {"printed", row.printed}};
    figure[row.is_count ? "count" : "bytes"] = row.bytes;
    figure["meaning"] = row.meaning;
    json["figures"].push_back(figure);
  }
  json["other_processes"] = nlohmann::ordered_json::array();
  for (const ProcessFigure& other : other_processes(*one.message))
    json["other_processes"].push_back({{"pid", other.pid}, {"bytes", other.memory.bytes}});
  json["contradictions"] = one.verdict.contradictions;
  json["facts"] = one.verdict.facts;
  json["changes"] = one.remedy.changes;
  json["record"] = one.remedy.record;
  return json;
}

}  // namespace

std::string to_text(const FoundMessages& found, std::string_view name) {
  const std::vector<Answered> all = answers(found);
  const Answered& first = all.front();
  std::string text = fmt::format("{}: {}.\n", name, first.verdict.answer);
  text += fmt::format("from: {}\n", source_of(*first.message));
  const std::vector<Row> rows = rows_of(*first.message);
  if (!rows.empty()) text += "\nWhat the message says:\n";
  for (const Row& row : rows)
    text += fmt::format("  {:>13}  {:<16}  {}\n", row.printed, row.label, row.meaning);
  const std::vector<std::string> facts = facts_of(found, first);
  if (!facts.empty()) text += "\nWhat follows:\n";
  for (const std::string& fact : facts) text += fmt::format("  {}\n", fact);
  if (!first.remedy.changes.empty()) text += "\nWhat can be changed:\n";
  for (const std::string& change : first.remedy.changes) text += fmt::format("  {}\n", change);
  if (all.size() > 1 || found.dropped_count > 0)
    text += "\nOther messages in this text:\n" + others_text(found, all);
  if (!first.remedy.record.empty()) text += fmt::format("\n{}\n", first.remedy.record_title);
  for (const std::string& line : first.remedy.record) text += fmt::format("  {}\n", line);
  return text + fmt::format("\n{}\n", first.remedy.last_line);
}

std::string to_json(const FoundMessages& found, std::string_view name) {
  const std::vector<Answered> all = answers(found);
  nlohmann::ordered_json json = {{"file", name}, {"kind", "message"}};
  json.update(facts_json(all.front()));
  json["last_line"] = all.front().remedy.last_line;
  json["other_messages"] = nlohmann::ordered_json::array();
  for (std::size_t i = 1; i < all.size(); ++i) json["other_messages"].push_back(facts_json(all[i]));
  json["dropped_count"] = found.dropped_count;
  json["damage"] = found.damage;
  return json_text(json, 1) + "\n";
}

std::string to_markdown(const FoundMessages& found, std::string_view name) {
  const std::vector<Answered> all = answers(found);
  const Answered& first = all.front();
  std::string text = fmt::format("**{}**: {}.\n\nFrom: {}.\n", name, first.verdict.answer,
                                 source_of(*first.message));
  const std::vector<Row> rows = rows_of(*first.message);
  if (!rows.empty()) text += "\n| figure | as printed | what it is |\n| --- | --: | --- |\n";
  for (const Row& row : rows)
    text += fmt::format("| {} | {} | {} |\n", row.label, row.printed, row.meaning);
  std::vector<std::string> points = facts_of(found, first);
  points.insert(points.end(), first.remedy.changes.begin(), first.remedy.changes.end());
  if (!points.empty()) text += "\n";
  for (const std::string& point : points) text += fmt::format("- {}\n", point);
  if (all.size() > 1) text += "\nOther messages in this text:\n\n";
  for (std::size_t i = 1; i < all.size() && i <= kMoreTold; ++i)
    text += fmt::format("- {}: {}.\n", source_of(*all[i].message), all[i].verdict.answer);
  if (!first.remedy.record.empty()) {
    text += fmt::format("\n{}\n\n```\n", first.remedy.record_title);
    for (const std::string& line : first.remedy.record) text += line + "\n";
    text += "```\n";
  }
  return text + fmt::format("\n{}\n", first.remedy.last_line);
}

}  // namespace allocmark::message
