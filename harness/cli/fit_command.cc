// 'allocmark fit W': the least memory that a job needs with each setting, from passes without a
// clock.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/json_text.h"
#include "harness/advise/advice.h"
#include "harness/advise/grid.h"
#include "harness/advise/search_process.h"
#include "harness/advise/search_progress.h"
#include "harness/advise/target.h"
#include "harness/cli/advise_input.h"
#include "harness/cli/card_choice.h"
#include "harness/cli/commands.h"
#include "harness/cli/run_output.h"
#include "harness/cli/terminal.h"
#include "harness/run/child_process.h"
#include "harness/run/environment.h"
#include "harness/run/run.h"
#include "harness/run/runtime_select.h"

namespace allocmark {
namespace {

// Passes that settle capacities above a setting's least one, where --exact does not ask for all.
constexpr std::uint32_t kSettleCountMax = 16;

constexpr const char* kFitFooter =
    "\nThe least memory is the least from which every larger amount serves all requests. Each pass "
    "settles a range of\namounts, because an allocator learns of its memory only by refusals. '?' "
    "marks amounts above the least that no pass\nsettled; --exact settles all. What the CUDA "
    "context takes comes on top: 0.5 GiB on an H200.\n"
    "\nExamples:\n"
    "  allocmark fit gpt2_train_amp\n"
    "  allocmark fit my_job.csv.gz --exact --conf unset expandable_segments:True\n";

struct FitCommand {
  JobOptions job;
  bool exact = false;
};

void add_fit(CLI::App* app, FitCommand* command) {
  add_job_options(app, &command->job);
  app->add_flag("--exact", command->exact, "Settle every amount of memory above the least");
  app->footer(kFitFooter);
}

// What is said below the table: which card is enough.
struct Cards {
  std::string workload = {};
  std::vector<CardRoom> rooms = {};  // the smallest first
  std::optional<TargetQuestion> question = std::nullopt;
  std::optional<TargetAnswer> target = std::nullopt;
};

Cards choose_cards(const JobOptions& job, const SearchResult& result, const std::string& placed) {
  const DeviceAnswer device = describe_device(job.device, own_program_path());
  Cards cards;
  cards.workload = placed;
  if (device.failure.empty())
    cards.rooms = cards_by_room(device.facts.gpu_memory_bytes - result.usable_bytes);
  if (job.target.empty()) return cards;
  cards.question = {.workload = placed,
                    .typed = workload_of(job.workload),
                    .seed = job.seed,
                    .target_ns = parse_target(job.target, "--target"),
                    .gpu_name = device.facts.gpu_name,
                    .needed_bytes = least_need(result)};
  cards.target = answer_target(*cards.question, cards.rooms, {});
  return cards;
}

void print_json(const SearchResult& result, const Cards& cards) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json_line(result));
  json["smallest_card"] = smallest_card_json(result, cards.rooms);
  if (cards.target) json["target"] = target_json(*cards.target);
  fmt::print("{}\n", json_text(json, 1));
}

void print_table(const SearchResult& result, const Cards& cards) {
  std::vector<const SettingFacts*> order;
  for (const SettingFacts& facts : result.settings) order.push_back(&facts);
  std::ranges::stable_sort(order, {}, [](const SettingFacts* facts) {
    return facts->least_bytes.value_or(~std::uint64_t{0});
  });
  std::vector<std::vector<std::string>> rows{{"setting", "needs", "above live", "passes"}};
  for (const SettingFacts* facts : order) {
    const std::uint64_t least_bytes = facts->least_bytes.value_or(0);
    const bool known = least_bytes >= result.needed_bytes && facts->least_bytes;
    rows.push_back({setting_text(facts->conf), least_text(*facts, result),
                    known ? format_bytes(least_bytes - result.needed_bytes) : "",
                    std::to_string(facts->pass_count)});
  }
  print_fitted(stdout, text_table(rows) + "\n");
  for (const SettingFacts* facts : order) {
    if (!facts->serves_below_bytes) continue;
    print_wrapped(stdout,
                  fmt::format("{} is not monotone: {} would serve as well, though a larger "
                              "amount fails.",
                              setting_text(facts->conf), format_bytes(*facts->serves_below_bytes)));
  }
  print_wrapped(stdout, needs_sentence(result));
  print_wrapped(stdout, smallest_card_text(result, cards.rooms));
  print_presets(cards.workload, stdout);
  if (!cards.target) return;
  for (const std::string& line : target_lines(*cards.target, *cards.question))
    print_wrapped(stdout, line);
}

ExitCode run_fit(const FitCommand& command) {
  const JobOptions& job = command.job;
  check_device(job.device);
  if (!is_simulated(job.device)) {
    throw UsageError({.what = "the least memory is searched on a simulated device",
                      .where = "--device " + job.device,
                      .wanted = "sim:CARD, or sim:h200,memory=24GiB",
                      .got = job.device,
                      .next = "leave --device away"});
  }
  const std::string placed = placed_workload(job, job.device, "");
  if (!job.target.empty()) (void)parse_target(job.target, "--target");
  const SearchSpec spec{.workload = placed,
                        .seed = job.seed,
                        .allocator = allocator_of(job),
                        .confs = chosen_confs(job, single_settings(release_of(job))),
                        .settle_count_max = command.exact ? 0 : kSettleCountMax};
  const SearchPlace place{.device = job.device,
                          .program_path = own_program_path(),
                          .process_count = default_job_count(job.device)};
  const SearchResult result = [&] {
    SearchProgress progress(spec.confs.size());
    return run_search(spec, place, [&] { progress.add(1); });
  }();
  print_search_notes(result);
  const Cards cards = choose_cards(job, result, placed);
  if (job.format == "json") {
    print_json(result, cards);
  } else {
    print_table(result, cards);
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kFitCommand;
constinit const CommandEntry kFitCommand{
    "fit", "Find the least memory that a job needs with each setting",
    [](CLI::App* app) { return bind_command(app, add_fit, run_fit); }};

}  // namespace allocmark
