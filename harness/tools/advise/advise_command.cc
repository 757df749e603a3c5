// 'allocmark advise W': which setting a job should run with on a card. A search without a clock
// finds the candidates; cells measure them; results/answer says which.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/median.h"
#include "base/nearest.h"
#include "base/own_process.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/measure/host_reference.h"
#include "harness/core/measure/host_scale.h"
#include "harness/core/pinned/pinned_program.h"
#include "harness/core/pinned/pinned_rows.h"
#include "harness/core/run/conditions.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/run.h"
#include "harness/core/search/advice.h"
#include "harness/core/search/frameworks.h"
#include "harness/core/search/search_progress.h"
#include "harness/core/search/target.h"
#include "harness/job/interrupt.h"
#include "harness/shell/options.h"
#include "harness/shell/question/card_choice.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/advise/advice.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

constexpr const char* kAdviseFooter =
    "\nFirst about 40 settings are searched without a clock: does each serve the job, what do its "
    "CUDA calls cost, how\nmuch memory does it need at least? Then unset and the best are measured "
    "as cells. Settings that the linter of\n'explain' finds inert or in conflict are left out, and "
    "keys that the job forbids or its release does not know.\nThe best are asked about other seeds "
    "and the longest lengths, too. Ctrl-C gives what is known by then.\n"
    "\nExamples:\n"
    "  allocmark advise my_job.csv.gz --device sim:rtx-4090\n"
    "  allocmark advise gpt2_train_amp --capacity 1.05x\n"
    "  allocmark advise my_job.csv.gz --device sim:a100-80 --pytorch 2.10\n"
    "  allocmark advise my_job.csv.gz --without expandable_segments --format markdown\n"
    "  allocmark advise job.sqlite --framework jax --device sim:a100-80\n";

struct AdviseCommand {
  JobOptions job;
  std::string capacity = "unlimited";
  std::string framework;  // empty: PyTorch
  std::uint32_t pass_count = 3;
  bool search_only = false;
  bool all = false;  // the whole table
};

void add_advise(CLI::App* app, AdviseCommand* command) {
  add_job_options(app, &command->job);
  add_default(app, "--capacity", command->capacity, "X",
              "Memory that the job may use, as in 'run'; unlimited: all that the card leaves "
              "to programs");
  add_value(app, "--framework", command->framework, "NAME",
            "Whose settings: jax (XLA_PYTHON_CLIENT_*) or tensorflow (TF_GPU_ALLOCATOR, "
            "...) instead of PyTorch's config string. The requests are the program's own: "
            "record them with its cache off, as 'why' says")
      ->check(CLI::IsMember(framework_names()));
  add_default(app, "--passes", command->pass_count, "N", "Timed passes of each candidate")
      ->check(CLI::Range(1u, 1000u));
  app->add_flag("--search-only", command->search_only, "Search without a clock only");
  app->add_flag("--all", command->all,
                "Show every setting that was searched, not only unset and the best");
  app->footer(kAdviseFooter);
}

void measure(const AdviseCommand& command, const std::string& device,
             const InterruptGuard& interrupt, Advice* advice) {
  HostCounters begin = read_host_counters();
  begin.host_reference_ns = HostReference().measure_quiet_ns();
  advice->device.host_reference_ns = *begin.host_reference_ns;
  std::vector<CellSpec> specs;
  for (const std::string& setting : advice->finalists) {
    const CellKey key = key_of(advice->search, setting);
    CellSpec spec;
    spec.key = {.workload = workload_of(command.job.workload),
                .allocator = key.allocator,
                .conf = key.conf,
                .device = device,
                .capacity = command.capacity,
                .seed = command.job.seed,
                .on_oom = "skip"};
    if (advice->workload != spec.key.workload) spec.key.workload_definition = advice->workload;
    spec.pass_count = command.pass_count;
    spec.host_target = host_target_of(advice->device);
    specs.push_back(std::move(spec));
  }
  SearchProgress progress(fmt::format("measuring {} settings", specs.size()), specs.size());
  // One at a time: they are compared by time.
  const bool whole = run_cells(
      specs, {.program_path = own_program_path(), .job_count = 1, .interrupt = &interrupt},
      [&](const CellResult& cell) {
        advice->cells.push_back(cell);
        progress.add(1);
      });
  if (!whole) advice->search.interrupted = true;
  HostCounters end = read_host_counters();
  std::vector<double> references_ns;
  for (const CellResult& cell : advice->cells) {
    if (cell.host_reference_ns > 0) references_ns.push_back(cell.host_reference_ns);
  }
  if (!references_ns.empty()) end.host_reference_ns = median(std::move(references_ns));
  const std::uint64_t cpu_count = host_environment({}).cpu_count;
  advice->disturbances = conditions_between(begin, end, cpu_count).warnings;
}

// What --target asks: from the measured cells, the server's own trace and the table of cards.
void judge_target(const AdviseCommand& command, Advice* advice) {
  if (command.job.target.empty()) return;
  const SearchResult& search = advice->search.own;
  advice->question = {.workload = advice->workload,
                      .typed = workload_of(command.job.workload),
                      .seed = command.job.seed,
                      .target_ns = parse_target(command.job.target, "--target"),
                      .gpu_name = advice->device.gpu_name,
                      .needed_bytes = least_need(search)};
  const std::vector<CardRoom> cards =
      cards_of_job(advice->question->typed, advice->workload, command.job.seed);
  advice->target = answer_target(*advice->question, cards, advice->cells);
}

// Where the job asks for pinned memory of the host.
void advise_host(const AdviseCommand& command, Advice* advice) {
  PinnedProgram program = read_pinned_program(*open_workload(advice->workload, command.job.seed));
  if (program.request_count == 0) return;
  PinnedAdvice pinned = advise_pinned(program, *advice->search.release.rules);
  advice->host = {.program = std::move(program), .pinned = std::move(pinned)};
}

// What is asked of PyTorch alone.
void check_framework(const AdviseCommand& command) {
  const auto refuse = [&](const char* option) {
    throw UsageError({.what = "this is asked of PyTorch alone",
                      .where = option,
                      .got = "--framework " + command.framework,
                      .next = "leave one of them out"});
  };
  if (!command.job.confs.empty()) refuse("--conf");
  if (!command.job.pytorch.empty()) refuse("--pytorch");
  if (!command.job.target.empty()) refuse("--target");
  const std::vector<std::string> known = framework_of(command.framework, 0).variables();
  for (const std::string& word : command.job.without) {
    const std::string name = word.substr(0, word.find('='));
    if (std::ranges::find(known, name) != known.end()) continue;
    throw UsageError({.what = "no variable of " + command.framework + " that is tried",
                      .where = "--without",
                      .wanted = "a variable such as " + known.back(),
                      .got = "'" + word + "'",
                      .next = suggest(name, known)});
  }
}

ExitCode run_advise(const AdviseCommand& command) {
  check_device(command.job.device);
  if (command.framework.empty()) {
    check_without(command.job);
  } else {
    check_framework(command);
  }
  if (!command.job.target.empty()) (void)parse_target(command.job.target, "--target");
  const DeviceChoice choice = choose_device(command.job.device, own_program_path());
  if (const std::string note =
          nominal_capacity_note(command.capacity, choice.facts.gpu_memory_bytes);
      !note.empty()) {
    print_wrapped(stderr, "note: " + note);
  }
  const InterruptGuard interrupt;
  Advice advice;
  advice.device = choice.facts;
  advice.workload = placed_workload(command.job, choice.device, choice.facts.gpu_name);
  advice.search = search_job({.job = command.job,
                              .workload = advice.workload,
                              .capacity = command.capacity,
                              .device = search_device(choice.device, choice.facts.gpu_memory_bytes),
                              .framework = command.framework},
                             interrupt);
  advice.finalists =
      finalists(advice.search.judged, {.capacity_bytes = advice.search.own.capacity_bytes});
  const bool is_known = !advice.search.own.settings.empty();
  if (is_known && !command.search_only && !advice.search.is_impossible() &&
      !advice.search.interrupted) {
    measure(command, choice.device, interrupt, &advice);
  }
  if (is_known) judge_target(command, &advice);
  if (is_known && command.framework.empty()) advise_host(command, &advice);
  print_search_notes(advice.search.own);
  for (const std::string& disturbance : advice.disturbances) {
    print_wrapped(stderr, "warning: " + disturbance +
                              "; the measured times may be off, and the order by them");
  }
  if (advice.search.interrupted) {
    fmt::print(stderr, "interrupted: {} of {} settings were searched, {} cells measured\n",
               advice.search.own.settings.size(), advice.search.setting_count, advice.cells.size());
  }
  if (is_known) print_advice(advice, command.job, command.all);
  return advice.search.interrupted ? ExitCode::CellsIncomplete : ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kAdviseCommand;
constinit const CommandEntry kAdviseCommand{
    "advise", "Find the setting that a job should run with on a card",
    [](CLI::App* app) { return bind_command(app, add_advise, run_advise); }};

}  // namespace allocmark
