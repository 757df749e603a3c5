// 'allocmark pinned SIZE...': how much host memory PyTorch pins for buffers, by release and rule.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "allocators/caching/config.h"
#include "allocators/caching/explain.h"
#include "allocators/caching/release.h"
#include "allocators/conf/conf.h"
#include "allocators/host_caching/demand.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_text.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"

namespace allocmark {
namespace {

using caching::Rules;
using host_caching::Buffers;

constexpr const char* kPinnedFooter =
    "\nAll buffers are held at once, as weights, optimizer states and caches on the host are. "
    "PyTorch rounds each to a power of two, unless a setting of 2.13 or later says otherwise; "
    "exact is what mmap and cudaHostRegister take.\n"
    "\nExamples:\n"
    "  allocmark pinned 5x1.20GiB 2.25GiB\n"
    "  allocmark pinned 24x2236817408B --pytorch 2.11.0\n"
    "  allocmark pinned 20.4GiB --conf pinned_max_round_threshold_mb:64\n";

struct PinnedCommand {
  std::vector<std::string> sizes;
  std::string conf = "unset";
  std::string pytorch;  // empty: every release
  std::string format = "table";
};

void add_pinned(CLI::App* app, PinnedCommand* command) {
  app->add_option("sizes", command->sizes,
                  "Buffers that are pinned: 2.25GiB, or 5x1.20GiB for five")
      ->required()
      ->type_name("SIZE");
  app->add_option("--conf", command->conf, "The config string, as in PYTORCH_CUDA_ALLOC_CONF")
      ->capture_default_str()
      ->type_name("CONF");
  app->add_option("--pytorch", command->pytorch,
                  "The release of PyTorch whose rules apply, such as 2.13 [every one]")
      ->type_name("V");
  app->add_option("--format", command->format, "table or json (one document)")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str()
      ->type_name("F");
  app->footer(kPinnedFooter);
}

// One setting, in releases that do the same with it.
struct Row {
  std::vector<const Rules*> releases;
  std::string conf;     // empty is unset
  std::string refused;  // why these releases do not accept it; then nothing is pinned
  host_caching::PinnedNeed need;
  std::vector<std::string> dangers;
};

struct PinnedAnswer {
  std::vector<Buffers> buffers;
  std::uint64_t asked_bytes = 0;
  std::uint64_t exact_bytes = 0;
  std::vector<Row> rows;
};

std::vector<Buffers> read_sizes(const std::vector<std::string>& words) {
  std::vector<Buffers> buffers;
  std::uint64_t count = 0;
  for (const std::string& word : words) {
    const std::optional<Buffers> read = host_caching::parse_buffers(word);
    if (!read) {
      const std::string why = explain_bytes(word.substr(word.find_first_of("xX*") + 1));
      throw UsageError({.what = "these are no buffers",
                        .where = "SIZE",
                        .wanted = "a size with a unit, as 2.25GiB, or several of one, as 5x1.20GiB",
                        .got = word,
                        .next = why.empty() ? "see: allocmark pinned --help" : why});
    }
    buffers.push_back(*read);
    count += read->count;
    if (count > host_caching::kBuffersMax || host_caching::asked_bytes(buffers) > (1ull << 62)) {
      throw UsageError(
          {.what = "these are too many buffers",
           .where = "SIZE",
           .wanted = fmt::format("at most {} buffers and 4 EiB in all", host_caching::kBuffersMax),
           .got = word,
           .next = "ask for fewer"});
    }
  }
  return buffers;
}

Row row_of(const std::vector<Buffers>& buffers, const Rules& rules, const std::string& conf) {
  Row row{.releases = {&rules}, .conf = conf, .refused = {}, .need = {}, .dangers = {}};
  const caching::StrictConfig config = caching::parse_strict(conf, rules);
  if (config.error) {
    row.refused = to_string(*config.error);
    return row;
  }
  row.need = host_caching::pinned_need(buffers, config.settings);
  row.dangers = caching::conf_dangers(conf, rules);
  return row;
}

// Adds the row, or its release to the last one where that says the same.
void append(std::vector<Row>* rows, Row row) {
  if (!rows->empty()) {
    Row& last = rows->back();
    if (last.conf == row.conf && last.refused.empty() == row.refused.empty() &&
        last.need.pinned_bytes == row.need.pinned_bytes && last.dangers == row.dangers) {
      last.releases.push_back(row.releases.front());
      return;
    }
  }
  rows->push_back(std::move(row));
}

// What stops rounding in a release, and is safe there; empty where nothing does.
std::string exact_conf(const Rules& rules) {
  if (!caching::find_config_key("pinned_max_round_threshold_mb")->known_to(rules)) return "";
  return rules.overflows_pinned ? "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:1"
                                : "pinned_max_round_threshold_mb:1";
}

PinnedAnswer answer_of(const PinnedCommand& command) {
  PinnedAnswer answer;
  answer.buffers = read_sizes(command.sizes);
  answer.asked_bytes = host_caching::asked_bytes(answer.buffers);
  answer.exact_bytes = host_caching::exactly_pinned_bytes(answer.buffers);
  const std::string conf = conf_of_user(command.conf);
  std::vector<const Rules*> releases;
  if (command.pytorch.empty()) {
    for (const Rules& rules : caching::all_rules()) releases.push_back(&rules);
  } else {
    releases.push_back(&caching::require_rules(command.pytorch, "--pytorch"));
  }
  // Nobody accepts it: say so as every command does. The newest release has every key.
  const caching::StrictConfig newest = caching::parse_strict(conf, *releases.back());
  if (newest.error)
    throw UsageError(told_conf_error(*newest.error, "--conf", conf, releases.back()->allocator()));
  for (const Rules* rules : releases) append(&answer.rows, row_of(answer.buffers, *rules, conf));
  if (!conf.empty()) {
    for (const Rules* rules : releases) append(&answer.rows, row_of(answer.buffers, *rules, ""));
  }
  for (const Rules* rules : releases) {
    const std::string exact = exact_conf(*rules);
    if (!exact.empty() && exact != conf)
      append(&answer.rows, row_of(answer.buffers, *rules, exact));
  }
  return answer;
}

// "2.9 to 2.12", "2.13".
std::string releases_text(const Row& row) {
  const std::string first = row.releases.front()->name();
  return row.releases.size() == 1 ? first : first + " to " + row.releases.back()->name();
}

std::string conf_text(const Row& row) { return row.conf.empty() ? "unset" : row.conf; }

std::string waste_text(std::uint64_t pinned_bytes, std::uint64_t asked_bytes) {
  if (pinned_bytes <= asked_bytes) return "0 B";
  const std::uint64_t waste_bytes = pinned_bytes - asked_bytes;
  return fmt::format("{} ({:.0f}%)", format_bytes(waste_bytes),
                     100 * static_cast<double>(waste_bytes) / static_cast<double>(asked_bytes));
}

void print_table(const PinnedAnswer& answer) {
  std::string text;
  std::uint64_t count = 0;
  for (const Buffers& each : answer.buffers) count += each.count;
  text += fmt::format("asked: {} in {} buffer{}\n\n", format_bytes(answer.asked_bytes), count,
                      count == 1 ? "" : "s");
  const auto accepted =
      std::ranges::find_if(answer.rows, [](const Row& row) { return row.refused.empty(); });
  text += fmt::format("{:>8} x {:<11} -> block of ({}, {})\n", "count", "size",
                      releases_text(*accepted), conf_text(*accepted));
  for (std::size_t i = 0; i < answer.buffers.size(); ++i) {
    text += fmt::format("{:>8} x {:<11} -> {}\n", answer.buffers[i].count,
                        format_bytes(answer.buffers[i].size_bytes),
                        format_bytes(accepted->need.block_bytes[i]));
  }
  text += fmt::format("\n{:<13} {:>11}  {:<17} {}\n", "PyTorch", "pinned", "more than asked",
                      "setting");
  for (const Row& row : answer.rows) {
    const std::string conf = conf_text(row);
    if (!row.refused.empty()) {
      text += fmt::format("{:<13} {:>11}  {:<17} {}\n", releases_text(row), "refuses it", "", conf);
      continue;
    }
    text += fmt::format("{:<13} {:>11}  {:<17} {}\n", releases_text(row),
                        format_bytes(row.need.pinned_bytes),
                        waste_text(row.need.pinned_bytes, answer.asked_bytes), conf);
  }
  text += fmt::format("{:<13} {:>11}  {:<17} {}\n", "any", format_bytes(answer.exact_bytes),
                      waste_text(answer.exact_bytes, answer.asked_bytes),
                      "exact: mmap + cudaHostRegister");
  for (const Row& row : answer.rows) {
    for (const std::string& danger : row.dangers) text += "danger: " + danger + "\n";
  }
  print_fitted(stdout, text);
}

void print_json(const PinnedAnswer& answer) {
  nlohmann::ordered_json json = {{"asked_bytes", answer.asked_bytes},
                                 {"exact_bytes", answer.exact_bytes}};
  json["buffers"] = nlohmann::ordered_json::array();
  for (const Buffers& each : answer.buffers)
    json["buffers"].push_back({{"count", each.count}, {"size_bytes", each.size_bytes}});
  json["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : answer.rows) {
    nlohmann::ordered_json one = {{"releases", nlohmann::ordered_json::array()},
                                  {"conf", row.conf},
                                  {"refused", row.refused}};
    for (const Rules* rules : row.releases) one["releases"].push_back(rules->name());
    one["pinned_bytes"] = nullptr;
    if (row.refused.empty()) one["pinned_bytes"] = row.need.pinned_bytes;
    one["block_bytes"] = row.need.block_bytes;
    one["dangers"] = row.dangers;
    json["rows"].push_back(std::move(one));
  }
  fmt::print("{}\n", json_text(json, 1));
}

ExitCode run_pinned(const PinnedCommand& command) {
  const PinnedAnswer answer = answer_of(command);
  if (command.format == "json") {
    print_json(answer);
  } else {
    print_table(answer);
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kPinnedCommand;
constinit const CommandEntry kPinnedCommand{
    "pinned", "Say how much host memory PyTorch pins for buffers",
    [](CLI::App* app) { return bind_command(app, add_pinned, run_pinned); }};

}  // namespace allocmark
