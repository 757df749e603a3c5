// 'allocmark bound WORKLOAD': how little memory a program could do with, were all its requests
// known beforehand, and how far a run's allocators are from that.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocators/packing/packing.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_text.h"
#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/bound/block_lives.h"
#include "results/run_file.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

constexpr const char* kBoundFooter =
    "\nThe bound is the most bytes live at once: no allocator can do with less. The packing puts "
    "each "
    "block at an address that is free while it lives, and knows all of them; an allocator does "
    "not. Regret is what an allocator reserved beyond the packing.\n"
    "\nExamples:\n"
    "  allocmark bound train:gpt2-124m,batch=8\n"
    "  allocmark bound train:gpt2-124m,batch=8 --run results.jsonl\n"
    "  allocmark bound blocks.csv --capacity 1MiB --out packing.csv\n";

struct BoundCommand {
  std::string input;
  std::uint64_t seed = 1;
  std::uint64_t round_bytes = 512;
  std::uint64_t effort = 1;
  std::string capacity;  // empty: none is asked about
  std::string run;
  std::string out;
  bool force = false;
  std::string format = "table";
};

void add_bound(CLI::App* app, BoundCommand* command) {
  app->add_option(
         "input", command->input,
         "A workload or trace as 'run' takes it, or a CSV file with the columns id, lower, "
         "upper and size")
      ->required()
      ->type_name("WORKLOAD");
  app->add_option("--seed", command->seed, "Seed of generators")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--round", command->round_bytes,
                  "Sizes of a workload are rounded up to this many bytes; of a CSV file to 1")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30))
      ->capture_default_str()
      ->type_name("BYTES");
  app->add_option("--effort", command->effort, "How much is tried: 10 is ten times the default")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--capacity", command->capacity,
                  "Say whether a packing fits into this much; exit code 1 where none was found")
      ->type_name("SIZE");
  app->add_option("--run", command->run,
                  "A run's results.jsonl: the regret of its cells of this workload")
      ->type_name("FILE");
  app->add_option("-o,--out", command->out, "Write the packing there, as CSV with a column offset")
      ->type_name("FILE");
  add_force(app, &command->force);
  add_format(app, &command->format, "table or json (one document)", {"table", "json"});
  app->footer(kBoundFooter);
}

struct Rival {
  std::string allocator, conf, device, capacity;
  std::uint64_t requested_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t oom_count = 0;
};

struct BoundAnswer {
  std::size_t block_count = 0;
  std::uint64_t asked_bytes = 0;  // most bytes live, without rounding
  std::uint64_t round_bytes = 1;
  std::uint64_t page_bytes = 0;  // of the bound, in whole pages of 2 MiB
  BlockPacking packing;
  std::optional<std::uint64_t> capacity_bytes;
  std::vector<Rival> rivals;
};

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::uint64_t read_capacity(const std::string& text) {
  const std::optional<std::uint64_t> bytes = parse_bytes_or_count(text);
  if (bytes) return *bytes;
  throw UsageError({.what = "this is no size",
                    .where = "--capacity",
                    .wanted = "a number of bytes, or a size with a unit, as 40GiB",
                    .got = text,
                    .next = explain_bytes(text)});
}

std::vector<Rival> read_rivals(const BoundCommand& command) {
  std::vector<Rival> rivals;
  for (const CellResult& cell : read_run_file(command.run).cells) {
    if (cell.key.workload != command.input && cell.key.workload_text() != command.input) continue;
    if (!cell.reserved_bytes_peak) continue;
    rivals.push_back({.allocator = cell.key.allocator,
                      .conf = cell.key.conf,
                      .device = cell.key.device,
                      .capacity = cell.key.capacity,
                      .requested_bytes = cell.requested_bytes_peak,
                      .reserved_bytes = *cell.reserved_bytes_peak,
                      .oom_count = cell.oom_count});
  }
  if (!rivals.empty()) return rivals;
  throw UsageError({.what = "the run has no cell of this workload that says what it reserved",
                    .where = command.run,
                    .wanted = "a cell of " + command.input,
                    .next = "name the workload as the run does"});
}

BoundAnswer answer_of(const BoundCommand& command) {
  BoundAnswer answer;
  if (!command.capacity.empty()) answer.capacity_bytes = read_capacity(command.capacity);
  if (!command.out.empty()) check_output_file(command.out, command.force, "--out");
  if (!command.run.empty()) answer.rivals = read_rivals(command);
  const bool is_file = is_block_file(command.input);
  NamedBlocks named = is_file ? read_block_file(command.input)
                              : blocks_of_trace(open_path_or_workload(command.input, command.seed));
  if (named.blocks.empty()) {
    throw UsageError({.what = "there is nothing to pack",
                      .where = command.input,
                      .wanted = "at least one block",
                      .got = "none",
                      .next = "name another workload"});
  }
  answer.block_count = named.blocks.size();
  answer.asked_bytes = peak_bytes(named.blocks);
  answer.round_bytes = is_file ? 1 : command.round_bytes;
  for (BlockLife& block : named.blocks)
    block.size_bytes = rounded(block.size_bytes, answer.round_bytes);
  PackEffort effort;
  effort.comparisons *= command.effort;
  effort.nodes *= command.effort;
  answer.packing = pack_blocks(named.blocks, effort);
  answer.page_bytes = rounded(answer.packing.bound_bytes, std::uint64_t{2} << 20);
  const std::string fault = fault_of(named.blocks, answer.packing);
  if (!fault.empty())
    throw InternalError({.what = "the packing is wrong: " + fault,
                         .where = command.input,
                         .wanted = "blocks that share no byte while both live",
                         .next = "report this"});
  if (!command.out.empty()) write_packing_file(named, answer.packing, command.out);
  return answer;
}

double percent_over(std::uint64_t bytes, std::uint64_t base_bytes) {
  return base_bytes == 0 ? 0
                         : 100 * (static_cast<double>(bytes) / static_cast<double>(base_bytes) - 1);
}

std::string capacity_text(const BoundAnswer& answer) {
  const std::uint64_t capacity_bytes = *answer.capacity_bytes;
  if (answer.packing.height_bytes <= capacity_bytes) return "the packing fits";
  if (answer.packing.bound_bytes > capacity_bytes) return "nothing fits: the bound is above it";
  return answer.packing.is_best
             ? "nothing fits: the packing is the lowest there is"
             : "not known: the packing is above it, the bound is not; try --effort 10";
}

bool fits(const BoundAnswer& answer) {
  return !answer.capacity_bytes || answer.packing.height_bytes <= *answer.capacity_bytes;
}

void print_table(const BoundAnswer& answer) {
  const BlockPacking& packing = answer.packing;
  std::string text = fmt::format("{} blocks\n", answer.block_count);
  const auto line = [&](const char* what, std::uint64_t bytes, const std::string& note) {
    text += fmt::format("{:<24} {:>11} {:>16} B  {}\n", what, format_bytes(bytes), bytes, note);
  };
  line("most bytes live, asked", answer.asked_bytes, "");
  line("the bound", packing.bound_bytes,
       answer.round_bytes == 1 ? "" : fmt::format("sizes in units of {} B", answer.round_bytes));
  line("in pages of 2 MiB", answer.page_bytes, "");
  line("the packing", packing.height_bytes,
       fmt::format(
           "{} above the bound; {}{}",
           packing.height_bytes == packing.bound_bytes
               ? "0 %"
               : fmt::format("{:.2f} %", percent_over(packing.height_bytes, packing.bound_bytes)),
           packing.found_by, packing.is_best ? "; no packing is lower" : ""));
  if (answer.capacity_bytes) line("capacity", *answer.capacity_bytes, capacity_text(answer));
  if (!answer.rivals.empty()) {
    text += fmt::format("\n{:>11}  {:>9}  {:>5}  {}\n", "reserved", "regret", "OOMs",
                        "allocator:setting, device, capacity");
  }
  for (const Rival& rival : answer.rivals) {
    text += fmt::format(
        "{:>11}  {:>7.1f} %  {:>5}  {}:{}, {}, {}\n", format_bytes(rival.reserved_bytes),
        percent_over(rival.reserved_bytes, packing.height_bytes), rival.oom_count, rival.allocator,
        rival.conf.empty() ? "unset" : rival.conf, rival.device, rival.capacity);
  }
  print_fitted(stdout, text);
}

void print_json(const BoundAnswer& answer) {
  const BlockPacking& packing = answer.packing;
  nlohmann::ordered_json json = {
      {"block_count", answer.block_count},     {"requested_bytes_peak", answer.asked_bytes},
      {"round_bytes", answer.round_bytes},     {"bound_bytes", packing.bound_bytes},
      {"bound_page_bytes", answer.page_bytes}, {"packed_bytes", packing.height_bytes},
      {"packing_is_lowest", packing.is_best},  {"found_by", packing.found_by}};
  json["capacity_bytes"] = nullptr;
  if (answer.capacity_bytes) {
    json["capacity_bytes"] = *answer.capacity_bytes;
    json["fits"] = fits(answer);
  }
  json["cells"] = nlohmann::ordered_json::array();
  for (const Rival& rival : answer.rivals) {
    json["cells"].push_back(
        {{"allocator", rival.allocator},
         {"conf", rival.conf},
         {"device", rival.device},
         {"capacity", rival.capacity},
         {"requested_bytes_peak", rival.requested_bytes},
         {"reserved_bytes_peak", rival.reserved_bytes},
         {"regret_percent", percent_over(rival.reserved_bytes, packing.height_bytes)},
         {"oom_count", rival.oom_count}});
  }
  fmt::print("{}\n", json_text(json, 1));
}

ExitCode run_bound(const BoundCommand& command) {
  const BoundAnswer answer = answer_of(command);
  command.format == "json" ? print_json(answer) : print_table(answer);
  return fits(answer) ? ExitCode::Pass : ExitCode::Regression;
}

}  // namespace

extern const CommandEntry kBoundCommand;
constinit const CommandEntry kBoundCommand{
    "bound", "Say how little memory a program could do with, and how far allocators are from it",
    [](CLI::App* app) { return bind_command(app, add_bound, run_bound); }};

}  // namespace allocmark
