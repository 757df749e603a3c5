// 'allocmark advise W': which setting a job should run with on a card. A search without a clock
// finds the candidates; cells measure them; results/answer says which.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/median.h"
#include "harness/advise/advice.h"
#include "harness/advise/grid.h"
#include "harness/advise/search_process.h"
#include "harness/advise/search_progress.h"
#include "harness/advise/target.h"
#include "harness/cli/advise_answer.h"
#include "harness/cli/advise_input.h"
#include "harness/cli/card_choice.h"
#include "harness/cli/commands.h"
#include "harness/cli/run_output.h"
#include "harness/cli/run_specs.h"
#include "harness/cli/terminal.h"
#include "harness/measure/host_reference.h"
#include "harness/run/card_names.h"
#include "harness/run/child_process.h"
#include "harness/run/conditions.h"
#include "harness/run/environment.h"
#include "harness/run/run.h"
#include "harness/run/runtime_select.h"
#include "results/answer/facts.h"

namespace allocmark {
namespace {

constexpr const char* kAdviseFooter =
    "\nFirst about 40 settings are searched without a clock: does each serve the job, what do its "
    "CUDA calls cost, how\nmuch memory does it need at least? Then unset and the best are measured "
    "as cells. Settings that the linter of\n'explain' finds inert or in conflict are left out.\n"
    "\nExamples:\n"
    "  allocmark advise my_job.csv.gz --device sim:rtx-4090\n"
    "  allocmark advise gpt2_train_amp --capacity 1.05x\n"
    "  allocmark advise my_job.csv.gz --device sim:a100-80 --pytorch 2.10\n";

struct AdviseCommand {
  JobOptions job;
  std::string capacity = "unlimited";
  std::uint32_t pass_count = 3;
  bool search_only = false;
  std::string placed = {};  // the workload on the device's card
};

void add_advise(CLI::App* app, AdviseCommand* command) {
  add_job_options(app, &command->job);
  app->add_option("--capacity", command->capacity,
                  "Memory the job may use on the card, as in 'run'; unlimited is all that the card "
                  "leaves")
      ->capture_default_str()
      ->type_name("X");
  app->add_option("--passes", command->pass_count, "Timed passes of each candidate")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str()
      ->type_name("N");
  app->add_flag("--search-only", command->search_only, "Measure nothing");
  app->footer(kAdviseFooter);
}

struct Advice {
  SearchResult search = {};
  std::vector<CellResult> cells = {};
  std::vector<std::string> disturbances = {};  // while the cells were measured
  Environment device = {};
  double search_s = 0;
  std::string release = {};   // of PyTorch
  std::string workload = {};  // on the device's card
  std::optional<TargetQuestion> question = std::nullopt;
  std::optional<TargetAnswer> target = std::nullopt;
};

// What a setting costs at one capacity, and to find its least one: passes over the whole trace, of
// which a typical bisection makes so many. Others end at their first failure.
constexpr std::uint64_t kCapacityUnits = 2;
constexpr std::uint64_t kLeastUnits = 5;

bool is_impossible(const SearchResult& search) {
  return search.needed_bytes > search.capacity_bytes;
}

// At the card's capacity, and the least capacities on a device that is large enough to find them.
SearchResult search_both(const AdviseCommand& command, const std::string& device) {
  const SearchPlace place{.device = device,
                          .program_path = own_program_path(),
                          .process_count = default_job_count(device)};
  SearchSpec spec{.workload = command.placed,
                  .seed = command.job.seed,
                  .capacity = command.capacity,
                  .allocator = allocator_of(command.job),
                  .confs = chosen_confs(command.job, all_settings(release_of(command.job))),
                  .finds_least = false};
  // What no setting can serve needs no search: two settings show what is missing.
  SearchSpec first = spec;
  first.confs.clear();
  if (command.job.confs.empty() && is_impossible(run_search(first, place))) {
    spec.confs = {"", "expandable_segments:True"};
  }
  SearchProgress progress(spec.confs.size() * (kCapacityUnits + kLeastUnits));
  SearchResult result = run_search(spec, place, [&] { progress.add(kCapacityUnits); });
  spec.capacity.clear();
  spec.finds_least = true;
  spec.settle_count_max = 1;
  SearchPlace roomy = place;
  roomy.device = roomy_device(device, result.stream_count);
  const SearchResult least = run_search(spec, roomy, [&] { progress.add(kLeastUnits); });
  for (std::size_t at = 0; at < result.settings.size(); ++at) {
    SettingFacts& facts = result.settings[at];
    const SettingFacts& found = least.settings[at];
    facts.least_bytes = found.least_bytes;
    facts.unsettled_bytes = found.unsettled_bytes;
    facts.serves_below_bytes = found.serves_below_bytes;
    facts.pass_count += found.pass_count;
  }
  return result;
}

void measure(const AdviseCommand& command, const std::string& device, Advice* advice) {
  HostCounters begin = read_host_counters();
  begin.host_reference_ns = HostReference().measure_quiet_ns();
  advice->device.host_reference_ns = *begin.host_reference_ns;
  std::vector<CellSpec> specs;
  for (const std::string& conf : finalists(advice->search.settings)) {
    CellSpec spec;
    spec.key = {.workload = workload_of(command.job.workload),
                .allocator = allocator_of(command.job),
                .conf = conf,
                .device = device,
                .capacity = command.capacity,
                .seed = command.job.seed,
                .on_oom = "skip"};
    if (command.placed != spec.key.workload) spec.key.workload_definition = command.placed;
    spec.pass_count = command.pass_count;
    spec.host_target = host_target_of(advice->device);
    specs.push_back(std::move(spec));
  }
  // One at a time: they are compared by time.
  (void)run_cells(specs, {.program_path = own_program_path(), .job_count = 1},
                  [&](const CellResult& cell) { advice->cells.push_back(cell); });
  HostCounters end = read_host_counters();
  std::vector<double> references_ns;
  for (const CellResult& cell : advice->cells) {
    if (cell.host_reference_ns > 0) references_ns.push_back(cell.host_reference_ns);
  }
  end.host_reference_ns = median(std::move(references_ns));
  const std::uint64_t cpu_count = host_environment({}).cpu_count;
  advice->disturbances = conditions_between(begin, end, cpu_count).warnings;
}

// What measured_cost tells of these cells.
std::string measured_head(const std::vector<CellResult>& cells) {
  const bool is_server =
      std::ranges::any_of(cells, [](const CellResult& cell) { return cell.requests.has_value(); });
  return is_server ? "request P99, ms" : "measured, ms";
}

void print_table(const Advice& advice) {
  const SearchResult& search = advice.search;
  const std::vector<bool> front = pareto_front(search.settings);
  std::vector<std::size_t> order = ranked_by_cost(search.settings);
  std::vector<std::size_t> failing;
  for (std::size_t at = 0; at < search.settings.size(); ++at) {
    if (search.settings[at].oom_count > 0) failing.push_back(at);
  }
  std::ranges::stable_sort(failing, {},
                           [&](std::size_t at) { return search.settings[at].oom_count; });
  order.insert(order.end(), failing.begin(), failing.end());
  std::vector<std::vector<std::string>> rows{
      {"setting", "OOMs", "needs", "peak", "CUDA calls, ms/step", measured_head(advice.cells), ""}};
  for (const std::size_t at : order) {
    const SettingFacts& facts = search.settings[at];
    rows.push_back({setting_text(facts.conf), std::to_string(facts.oom_count),
                    least_text(facts, search), format_bytes(facts.peak_bytes),
                    milliseconds(facts.driver_ns_per_step), measured_cost(advice.cells, facts.conf),
                    front[at] ? "*" : ""});
  }
  print_fitted(stdout, text_table(rows) + "\n");
}

void print_basis(const Advice& advice) {
  const SearchResult& search = advice.search;
  const std::uint32_t pass_count = std::accumulate(
      search.settings.begin(), search.settings.end(), 0u,
      [](std::uint32_t sum, const SettingFacts& facts) { return sum + facts.pass_count; });
  std::string text = fmt::format(
      "it rests on: {} settings and {} passes of {} events without a clock on a simulated {} "
      "({:.1f} s), {} cells measured there; PyTorch {}'s allocator. * = no other setting needs "
      "less "
      "memory and costs less.",
      search.settings.size(), pass_count, search.event_count, advice.device.gpu_name,
      advice.search_s, advice.cells.size(), advice.release);
  const bool is_open = std::ranges::any_of(
      search.settings, [](const SettingFacts& facts) { return facts.unsettled_bytes > 0; });
  if (is_open) text += " ? = not every larger amount was tried ('fit --exact' does).";
  if (!advice.device.times_borrowed_from.empty()) {
    text += " Driver times are borrowed from " + advice.device.times_borrowed_from + ".";
  }
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    text += " Measured times mean little: " + reason + ".";
  }
  if (search.stream_count > 1) {
    text += " Several streams: least memory may shift with the times of their work.";
  }
  print_wrapped(stdout, text);
}

// What --target asks: from the measured cells, the server's own trace and the table of cards.
void judge_target(const AdviseCommand& command, Advice* advice) {
  if (command.job.target.empty()) return;
  const SearchResult& search = advice->search;
  advice->question = {.workload = command.placed,
                      .typed = workload_of(command.job.workload),
                      .seed = command.job.seed,
                      .target_ns = parse_target(command.job.target, "--target"),
                      .gpu_name = advice->device.gpu_name,
                      .needed_bytes = least_need(search)};
  const std::uint64_t kept_bytes = advice->device.gpu_memory_bytes - search.usable_bytes;
  advice->target = answer_target(*advice->question, cards_by_room(kept_bytes), advice->cells);
}

void print_text(const Advice& advice) {
  const SearchResult& search = advice.search;
  print_table(advice);
  print_wrapped(stdout, fmt::format("memory: {}; {} are there.", needs_sentence(search),
                                    format_bytes(search.capacity_bytes)));
  if (is_impossible(search)) {
    print_wrapped(
        stdout, fmt::format("answer: needs {} live, {} are there: no setting can help; {} must "
                            "go.",
                            format_bytes(search.needed_bytes), format_bytes(search.capacity_bytes),
                            format_bytes(search.needed_bytes - search.capacity_bytes)));
  } else if (!advice.cells.empty()) {
    for (const std::string& line : measured_answer(advice.cells)) print_wrapped(stdout, line);
  }
  if (advice.target) {
    for (const std::string& line : target_lines(*advice.target, *advice.question))
      print_wrapped(stdout, line);
  }
  print_presets(advice.workload, stdout);
  print_basis(advice);
}

void print_json(const Advice& advice) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json_line(advice.search));
  json["needs"] = needs_sentence(advice.search);
  json["impossible"] = is_impossible(advice.search);
  json["times_borrowed_from"] = advice.device.times_borrowed_from;
  json["disturbances"] = advice.disturbances;
  json["answers"] = answers_json(advice.cells);
  if (advice.target) json["target"] = target_json(*advice.target);
  fmt::print("{}\n", json_text(json, 1));
}

ExitCode run_advise(const AdviseCommand& given) {
  check_device(given.job.device);
  if (!given.job.target.empty()) (void)parse_target(given.job.target, "--target");
  const DeviceChoice choice = choose_device(given.job.device, own_program_path());
  AdviseCommand command = given;
  command.placed = placed_workload(given.job, choice.device, choice.facts.gpu_name);
  if (const std::string note =
          nominal_capacity_note(command.capacity, choice.facts.gpu_memory_bytes);
      !note.empty()) {
    print_wrapped(stderr, "note: " + note);
  }
  Advice advice;
  advice.device = choice.facts;
  advice.workload = command.placed;
  advice.release = release_of(command.job).name();
  const std::string simulated = search_device(choice.device, choice.facts.gpu_memory_bytes);
  const auto begin = std::chrono::steady_clock::now();
  advice.search = search_both(command, simulated);
  advice.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!command.search_only && !is_impossible(advice.search)) {
    measure(command, choice.device, &advice);
  }
  judge_target(command, &advice);
  print_search_notes(advice.search);
  for (const std::string& disturbance : advice.disturbances) {
    print_wrapped(stderr, "warning: " + disturbance +
                              "; the measured times may be off, and the order by them");
  }
  if (command.job.format == "json") {
    print_json(advice);
  } else {
    print_text(advice);
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kAdviseCommand;
constinit const CommandEntry kAdviseCommand{
    "advise", "Find the setting that a job should run with on a card",
    [](CLI::App* app) { return bind_command(app, add_advise, run_advise); }};

}  // namespace allocmark
