// 'allocmark run --ab A B': two programs, allocators or config strings run in turn, and compared.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include "base/error.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/folder_lock.h"
#include "harness/core/run/plan.h"
#include "harness/core/run/progress.h"
#include "harness/shell/pages/compare_input.h"
#include "harness/shell/pages/interleaved_session.h"
#include "harness/shell/pages/report_pages.h"
#include "harness/shell/question/known_allocators.h"
#include "harness/shell/terminal.h"
#include "harness/tools/run/run_options.h"
#include "harness/tools/run/run_request.h"
#include "harness/tools/run/run_soak.h"
#include "results/compare/compare_writers.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

bool is_program(const std::string& text) {
  std::error_code error;
  return text.find('/') != std::string::npos && fs::is_regular_file(text, error) &&
         access(text.c_str(), X_OK) == 0 && !text.ends_with(".so");
}

bool is_allocator(std::string_view text, const std::vector<PlanAllocator>& known) {
  const std::string_view name = text.substr(0, text.find_first_of(":="));
  // A release that is not there is told as an allocator.
  if (name.find('@') != std::string_view::npos) return true;
  return std::any_of(known.begin(), known.end(),
                     [&](const PlanAllocator& allocator) { return allocator.name == name; });
}

// The command with one side's text in the place of the axis that it stands for.
struct Side {
  RunCommand command;
  std::string program_path;
};

Side side_of(const RunCommand& command, const std::string& text,
             const std::vector<PlanAllocator>& known) {
  Side side{.command = command, .program_path = own_program_path()};
  if (is_program(text)) {
    side.program_path = fs::canonical(text).string();
    return side;
  }
  if (text.find('/') != std::string::npos && !is_allocator(text, known)) {
    throw UsageError(
        {.what = "there is no such program",
         .where = fmt::format("--ab '{}'", text),
         .wanted = "an allocmark program, an allocator or a config string",
         .got = fs::exists(text) ? "a file that cannot be executed" : "no such file",
         .next = "a plugin is named as in pluggable:PATH.so,MALLOC_SYMBOL,FREE_SYMBOL"});
  }
  // NAME=CONF is a config string for one allocator, NAME and NAME:VALUES are allocators.
  const std::size_t separator = text.find_first_of(":=");
  if (is_allocator(text, known)) {
    const bool scoped = separator != std::string::npos && text[separator] == '=';
    side.command.allocators = {scoped ? text.substr(0, separator) : text};
    if (scoped) side.command.confs = {text};
    if (!scoped && command.confs.empty()) side.command.confs = {"unset"};
    return side;
  }
  side.command.confs = {text};
  if (command.allocators.empty()) side.command.allocators = {"caching"};
  return side;
}

void refuse_options(const RunCommand& command) {
  const auto refuse = [](const char* option) {
    throw UsageError({.what = "this does not go together with --ab",
                      .where = option,
                      .next = "leave it out, or run the two sides apart"});
  };
  if (command.resume) refuse("--resume");
  if (!command.shard.empty()) refuse("--shard");
  if (command.gpu_count > 0) refuse("--gpus");
  if (!command.placements_folder.empty()) refuse("--record-placements");
  if (command.timeline) refuse("--timeline");
  if (!command.until_width.empty()) refuse("--until-width");
  if (!command.pass_order.empty()) refuse("--pass-order");
  if (command.format != "table" && command.format != "json") {
    throw UsageError({.what = "an A/B run is printed as a comparison",
                      .where = "--format",
                      .wanted = "table or json",
                      .got = command.format,
                      .next = "for other formats: allocmark compare DIR --format FORMAT"});
  }
}

// What both plans must have in common for their cells to be the same experiments.
bool same_experiment(const CellKey& a, const CellKey& b) {
  return a.workload == b.workload && a.capacity == b.capacity && a.seed == b.seed &&
         a.on_oom == b.on_oom;
}

std::vector<InterleavedCell> pair_cells(const Plan& base, const Plan& now,
                                        std::uint32_t round_count_max) {
  std::vector<InterleavedCell> cells;
  bool alike = base.cells.size() == now.cells.size();
  for (std::size_t i = 0; alike && i < base.cells.size(); ++i) {
    alike = same_experiment(base.cells[i], now.cells[i]);
    cells.push_back(
        {.base = base.cells[i], .now = now.cells[i], .round_count_max = round_count_max});
  }
  if (alike) return cells;
  throw UsageError({.what = "the two sides have different cells, so there are no pairs to compare",
                    .where = "--ab",
                    .wanted = "the same workloads, capacities, seeds and number of config strings",
                    .got = fmt::format("{} and {} cells", base.cells.size(), now.cells.size()),
                    .next = "give one --allocator with config strings as sides, and no --conf with "
                            "allocators as sides"});
}

std::vector<FileMark> marks_of(const InterleavedSession& session, CellKey InterleavedCell::*side) {
  std::vector<CellKey> keys;
  for (const InterleavedCell& cell : session.plan.cells) keys.push_back(cell.*side);
  return mark_conf_files(keys);
}

// What later rounds start and read anew: both programs, and the trace files of the workloads.
void add_shared_marks(const InterleavedSession& session, std::vector<FileMark>* marks) {
  std::vector<CellKey> keys;
  for (const InterleavedCell& cell : session.plan.cells) keys.push_back(cell.base);
  for (FileMark& mark : mark_trace_files(keys)) marks->push_back(std::move(mark));
  for (const InterleavedSide& side : session.plan.sides) {
    const FileMark mark = mark_file(side.program_path);
    if (std::ranges::find(*marks, mark) == marks->end()) marks->push_back(mark);
  }
}

// One build against itself is a fair question, but mostly a slip.
void say_same_files(const std::vector<FileMark>& base, const std::vector<FileMark>& now) {
  if (base.empty() || now.empty()) return;
  if (!std::ranges::equal(base, now, {}, &FileMark::hash, &FileMark::hash)) return;
  print_warning(
      fmt::format("note: A and B load the same file ({} and {}), so what differs "
                  "is chance",
                  base.front().path, now.front().path));
}

// Both sides do all that was asked.
RunRequest join_whole(const RunCommand& command, const std::vector<PlanAllocator>& known) {
  RunRequest request = join_with_preset(command, known);
  if (!request.left_out.empty()) throw UsageError(request.left_out.front());
  return request;
}

// Of the same sides, with the untimed workloads in the place of the others.
std::vector<InterleavedCell> untimed_cells(const std::array<Side, kSideCount>& sides,
                                           const RunCommand& command,
                                           const std::vector<PlanAllocator>& known) {
  if (command.untimed.empty()) return {};
  // Two that are alike show that a side repeats itself; fewer than timed cells have.
  const std::uint32_t round_count =
      std::clamp(command.interleave.round_count, std::uint32_t{2}, std::uint32_t{3}) - 1;
  std::array<Plan, kSideCount> plans;
  for (std::size_t i = 0; i < kSideCount; ++i) {
    RunCommand untimed = sides.at(i).command;
    untimed.workloads = command.untimed;
    plans.at(i) = make_plan(join_whole(untimed, known).plan, known);
  }
  return pair_cells(plans[0], plans[1], round_count);
}

InterleavedSession make_session(const RunCommand& command) {
  const std::vector<PlanAllocator> known = known_allocators();
  const std::array<Side, kSideCount> sides{side_of(command, command.ab[0], known),
                                           side_of(command, command.ab[1], known)};
  std::array<RunRequest, kSideCount> requests;
  std::array<Plan, kSideCount> plans;
  InterleavedSession session;
  for (std::size_t i = 0; i < kSideCount; ++i) {
    requests.at(i) = join_whole(sides.at(i).command, known);
    plans.at(i) = make_plan(requests.at(i).plan, known);
    session.plan.sides.at(i) = {
        .label = side_name(i), .text = command.ab[i], .program_path = sides.at(i).program_path};
  }
  for (const std::string& note : requests.front().notes) print_wrapped(stderr, note);
  session.title = requests.front().title;
  session.plan.order_seed = command.interleave.order_seed;
  session.plan.turns_by_pass = command.interleave.turns == "pass";
  session.plan.pass_count = requests.front().pass_count;
  session.plan.pass_count_max = command.pass_count.value_or(kPassCountMax);
  session.plan.round_count = command.interleave.round_count;
  session.plan.round_count_max =
      std::max(command.interleave.round_count, command.interleave.round_count_max);
  session.plan.cells = pair_cells(plans[0], plans[1], session.plan.round_count_max);
  for (InterleavedCell& cell : untimed_cells(sides, command, known)) {
    session.plan.cells.push_back(std::move(cell));
  }
  session.verify = command.no_verify ? VerifyLevel::Off : *parse_verify_level(command.verify);
  session.timeout_s = command.timeout_s;
  // Two processes at a time would measure each other.
  session.job_count = command.job_count.value_or(1);
  session.folder = command.out.empty() ? default_folder(session.title + "-ab") : command.out;
  session.policy = read_policy(command.policy, command.effect_min);
  // The sides take turns on one machine: the spread between the rounds is the calibration.
  session.policy.calibration_required = false;
  return session;
}

// Growth is compared instead of times.
ExitCode soak_session(const RunCommand& command, const InterleavedSession& session) {
  if (fs::exists(session.folder) && !fs::is_empty(session.folder)) {
    throw UsageError({.what = "the folder of a soak is not empty",
                      .where = session.folder,
                      .wanted = "a new folder",
                      .next = "name another one by --out"});
  }
  SoakedSides sides{
      .program_paths = {session.plan.sides[0].program_path, session.plan.sides[1].program_path},
      .cells = {},
      .verify = session.verify};
  for (const InterleavedCell& cell : session.plan.cells) {
    sides.cells.push_back({cell.base, cell.now});
  }
  return soak_sides(command, sides, session.folder);
}

}  // namespace

ExitCode ab_command(const RunCommand& command) {
  refuse_options(command);
  InterleavedSession session = make_session(command);
  const DeviceChoice device = choose_device(command.device, own_program_path());
  const std::vector<PlanAllocator> known = known_allocators();
  for (const InterleavedCell& cell : session.plan.cells) {
    check_fits_device({cell.base, cell.now}, device.facts, known);
  }
  for (InterleavedCell& cell : session.plan.cells) {
    cell.base.device = device.device;
    cell.now.device = device.device;
  }
  if (!device.note.empty()) print_wrapped(stderr, device.note);
  if (command.dry_run) {
    for (const InterleavedCell& cell : session.plan.cells) {
      fmt::print("{}  {}\n{}  {}\n", cell.base.id(), cell_label(cell.base), cell.now.id(),
                 cell_label(cell.now));
    }
    fmt::print("{} pairs of cells on {}, {} to {} rounds of {} to {} passes\n",
               session.plan.cells.size(), device.device, session.plan.round_count,
               session.plan.round_count_max, session.plan.pass_count,
               std::max(session.plan.pass_count, session.plan.pass_count_max));
    return ExitCode::Pass;
  }
  Environment host = host_environment(command.argv);
  merge_device(device.facts, &host);
  for (std::size_t i = 0; i < kSideCount; ++i) {
    session.environments.at(i) =
        side_environment(host, device.device, session.plan.sides.at(i), command.allow_debug);
  }
  // Said once, not for each side.
  session.environments.back().warnings.clear();

  if (command.out.empty()) session.folder = make_new_folder(session.folder);
  if (!command.soak_for.empty()) return soak_session(command, session);
  std::vector<FileMark> marks = marks_of(session, &InterleavedCell::base);
  const std::vector<FileMark> marks_now = marks_of(session, &InterleavedCell::now);
  say_same_files(marks, marks_now);
  marks.insert(marks.end(), marks_now.begin(), marks_now.end());
  add_shared_marks(session, &marks);
  const SessionOutcome outcome = run_session(session);
  const bool changed = say_changed_files(marks);
  fmt::print("{}", command.format == "json"
                       ? render_comparison_json(outcome.comparison)
                       : render_comparison(outcome.comparison, Detail::Findings));
  std::FILE* people = command.format == "table" ? stdout : stderr;
  fmt::print(people, "results: {}\nto compare them again: allocmark compare {}\n", session.folder,
             shell_word(session.folder));
  write_pages_of_run({.folder = session.folder + "/B",
                      .baselines = {session.folder},
                      .policy = command.policy,
                      .html = command.html && outcome.completed},
                     people);
  if (!outcome.completed) fmt::print(stderr, "interrupted\n");
  if (!outcome.completed || changed) return ExitCode::CellsIncomplete;
  return outcome.comparison.exit_code;
}

}  // namespace allocmark
