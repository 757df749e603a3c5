// 'allocmark pinned SIZE...' and 'allocmark pinned --workload W': how much host memory PyTorch pins
// for buffers or a job, by release and rule, and what exact pinning takes.
#include <fmt/format.h>
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
#include "allocators/caching/release.h"
#include "allocators/conf/conf.h"
#include "allocators/host_caching/demand.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_text.h"
#include "harness/core/pinned/pinned_program.h"
#include "harness/core/pinned/pinned_rows.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

using caching::Rules;
using host_caching::Buffers;

constexpr const char* kPinnedFooter =
    "\nBuffers are held at once, as weights, optimizer states and caches on the host are; a "
    "workload also frees and asks again. PyTorch rounds each request to a power of two, unless a "
    "setting of 2.13 or later says otherwise; exact is what calls without a cache take. 'taking' "
    "is the time that pinning takes on an H200's host.\n"
    "\nExamples:\n"
    "  allocmark pinned 5x1.20GiB 2.25GiB\n"
    "  allocmark pinned 24x2236817408B --pytorch 2.11.0\n"
    "  allocmark pinned --workload offload:optimizer,library=fsdp,model=llama-3-8b\n"
    "  allocmark pinned 20.4GiB --conf pinned_max_round_threshold_mb:64\n";

struct PinnedCommand {
  std::vector<std::string> sizes;
  std::string workload;  // in place of sizes
  std::uint64_t seed = 1;
  std::string conf = "unset";
  std::string pytorch;  // empty: every release
  std::string format = "table";
};

void add_pinned(CLI::App* app, PinnedCommand* command) {
  app->add_option("sizes", command->sizes,
                  "Buffers that are pinned: 2.25GiB, or 5x1.20GiB for five")
      ->type_name("SIZE");
  app->add_option("-w,--workload", command->workload,
                  "A workload that pins, in place of buffers: offload:optimizer, file:PATH")
      ->type_name("W");
  app->add_option("--seed", command->seed, "Of the workload")
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--conf", command->conf, "The config string, as in PYTORCH_CUDA_ALLOC_CONF")
      ->capture_default_str()
      ->type_name("CONF");
  app->add_option("--pytorch", command->pytorch,
                  "The release of PyTorch whose rules apply, such as 2.13 [every one]")
      ->type_name("V");
  add_format(app, &command->format, "table or json (one document)", {"table", "json"});
  app->footer(kPinnedFooter);
}

struct PinnedAnswer {
  std::vector<Buffers> buffers;  // empty with a workload
  std::string workload;          // empty with buffers
  PinnedProgram program;
  std::vector<PinnedRow> rows;
  std::vector<ExactRow> exact;
  std::vector<OtherRow> others;
  PinnedAdvice advice;  // for the newest of the releases asked for
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

PinnedProgram program_of(const PinnedCommand& command, const std::vector<Buffers>& buffers) {
  if (command.workload.empty()) return pinned_program_of(buffers);
  PinnedProgram program = read_pinned_program(*open_workload(command.workload, command.seed));
  if (program.request_count > 0) return program;
  throw UsageError({.what = "this workload asks for no pinned memory of the host",
                    .where = "--workload",
                    .wanted = "events host_alloc, as generator offload makes",
                    .got = fmt::format("{}, which asks for {} of the device at once",
                                       command.workload, format_bytes(program.device_bytes_peak)),
                    .next = "allocmark run --workload shows what it does on a device"});
}

PinnedAnswer answer_of(const PinnedCommand& command) {
  PinnedAnswer answer;
  if (command.sizes.empty() == command.workload.empty())
    throw UsageError({.what = "what is pinned?",
                      .where = "SIZE, --workload",
                      .wanted = "buffers, or a workload",
                      .got = command.sizes.empty() ? "neither" : "both",
                      .next = "see: allocmark pinned --help"});
  answer.buffers = read_sizes(command.sizes);
  answer.workload = command.workload;
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
  answer.program = program_of(command, answer.buffers);
  answer.rows = pinned_rows(answer.program, releases, conf);
  answer.exact = exact_rows(answer.program);
  answer.others = other_rows(answer.program);
  answer.advice = advise_pinned(answer.program, *releases.back());
  return answer;
}

// "2.9 to 2.12", "2.13".
std::string releases_text(const PinnedRow& row) {
  const std::string first = row.releases.front()->name();
  return row.releases.size() == 1 ? first : first + " to " + row.releases.back()->name();
}

std::string conf_text(const PinnedRow& row) { return row.conf.empty() ? "unset" : row.conf; }

std::string waste_text(std::uint64_t pinned_bytes, std::uint64_t asked_bytes) {
  if (pinned_bytes <= asked_bytes) return "0 B";
  const std::uint64_t waste_bytes = pinned_bytes - asked_bytes;
  return fmt::format("{} ({:.0f}%)", format_bytes(waste_bytes),
                     100 * static_cast<double>(waste_bytes) / static_cast<double>(asked_bytes));
}

std::string use_text(const PinnedUse& use, std::uint64_t asked_bytes) {
  return fmt::format("{:>11}  {:<17} {:>6} {:>8.2f} s", format_bytes(use.pinned_bytes_peak),
                     waste_text(use.pinned_bytes_peak, asked_bytes), use.pin_count,
                     static_cast<double>(use.pinning_ns) / 1e9);
}

std::string blocks_text(const PinnedAnswer& answer) {
  std::string text = fmt::format(
      "asked: {} in {} buffer{} on the host\n\n", format_bytes(answer.program.asked_bytes_peak),
      answer.program.request_count, answer.program.request_count == 1 ? "" : "s");
  const auto accepted =
      std::ranges::find_if(answer.rows, [](const PinnedRow& row) { return row.refused.empty(); });
  text += fmt::format("{:>8} x {:<11} -> block of ({}, {})\n", "count", "size",
                      releases_text(*accepted), conf_text(*accepted));
  const host_caching::PinnedNeed need =
      host_caching::pinned_need(answer.buffers, accepted->settings);
  for (std::size_t i = 0; i < answer.buffers.size(); ++i) {
    text +=
        fmt::format("{:>8} x {:<11} -> {}\n", answer.buffers[i].count,
                    format_bytes(answer.buffers[i].size_bytes), format_bytes(need.block_bytes[i]));
  }
  return text;
}

std::string workload_text(const PinnedAnswer& answer) {
  return fmt::format(
      "workload: {}\nhost:     {} asked at once, in {} request{} for pinned memory in all\n"
      "device:   {} asked at once, not in the table; see 'allocmark run'\n",
      answer.workload, format_bytes(answer.program.asked_bytes_peak), answer.program.request_count,
      answer.program.request_count == 1 ? "" : "s", format_bytes(answer.program.device_bytes_peak));
}

void print_table(const PinnedAnswer& answer) {
  std::string text = answer.workload.empty() ? blocks_text(answer) : workload_text(answer);
  text += fmt::format("\n{:<13} {:>11}  {:<17} {:>6} {:>10}  {}\n", "PyTorch", "pinned",
                      "more than asked", "pins", "taking", "setting");
  const std::uint64_t asked_bytes = answer.program.asked_bytes_peak;
  for (const PinnedRow& row : answer.rows) {
    text += fmt::format("{:<13} {}  {}\n", releases_text(row),
                        row.refused.empty() ? use_text(row.use, asked_bytes)
                                            : fmt::format("{:>11}{:37}", "refuses it", ""),
                        conf_text(row));
  }
  for (const ExactRow& row : answer.exact)
    text += fmt::format("{:<13} {}  exact: {}\n", "any", use_text(row.use, asked_bytes), row.name);
  for (const OtherRow& row : answer.others)
    text += fmt::format("{:<13} {}  {}{}{}\n", "any", use_text(row.use, asked_bytes), row.pool,
                        row.conf.empty() ? "" : ", ", row.conf);
  for (const PinnedRow& row : answer.rows) {
    for (const std::string& danger : row.dangers) text += "danger: " + danger + "\n";
  }
  text += "\n" + verdict_text(answer.program, answer.advice) + "\n";
  print_fitted(stdout, text);
}

nlohmann::ordered_json json_of(const PinnedUse& use) {
  return {{"pinned_bytes", use.pinned_bytes_peak},
          {"pin_count", use.pin_count},
          {"unpin_count", use.unpin_count},
          {"pinning_ns", use.pinning_ns}};
}

nlohmann::ordered_json json_of(const PinnedAnswer& answer, const PinnedRow& row) {
  nlohmann::ordered_json one = {
      {"releases", nlohmann::ordered_json::array()}, {"conf", row.conf}, {"refused", row.refused}};
  for (const Rules* rules : row.releases) one["releases"].push_back(rules->name());
  one["pinned_bytes"] = nullptr;
  if (row.refused.empty()) one.update(json_of(row.use));
  one["block_bytes"] = nlohmann::ordered_json::array();
  if (row.refused.empty())
    one["block_bytes"] = host_caching::pinned_need(answer.buffers, row.settings).block_bytes;
  one["dangers"] = row.dangers;
  return one;
}

void print_json(const PinnedAnswer& answer) {
  nlohmann::ordered_json json = {{"workload", answer.workload},
                                 {"place", "host"},
                                 {"asked_bytes", answer.program.asked_bytes_peak},
                                 {"exact_bytes", answer.exact.front().use.pinned_bytes_peak},
                                 {"device_asked_bytes", answer.program.device_bytes_peak},
                                 {"request_count", answer.program.request_count}};
  json["buffers"] = nlohmann::ordered_json::array();
  for (const Buffers& each : answer.buffers)
    json["buffers"].push_back({{"count", each.count}, {"size_bytes", each.size_bytes}});
  json["rows"] = nlohmann::ordered_json::array();
  for (const PinnedRow& row : answer.rows) json["rows"].push_back(json_of(answer, row));
  json["exact"] = nlohmann::ordered_json::array();
  for (const ExactRow& row : answer.exact) {
    nlohmann::ordered_json one = {{"calls", row.name}};
    one.update(json_of(row.use));
    json["exact"].push_back(std::move(one));
  }
  json["others"] = nlohmann::ordered_json::array();
  for (const OtherRow& row : answer.others) {
    nlohmann::ordered_json one = {{"pool", row.pool}, {"conf", row.conf}};
    one.update(json_of(row.use));
    json["others"].push_back(std::move(one));
  }
  json["best"] = json_of(answer, answer.advice.rows.front());
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
    "pinned", "Say how much host memory PyTorch pins for buffers or a job",
    [](CLI::App* app) { return bind_command(app, add_pinned, run_pinned); }};

}  // namespace allocmark
