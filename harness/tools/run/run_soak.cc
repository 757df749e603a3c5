// See run_soak.h.
#include "harness/tools/run/run_soak.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include "base/output_file.h"
#include "base/own_process.h"
#include "base/shell_text.h"
#include "base/streams.h"
#include "harness/job/interrupt.h"
#include "harness/shell/terminal.h"
#include "harness/tools/run/soak/soak_process.h"
#include "harness/tools/run/soak/soak_text.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr double kWindowCount = 240;
constexpr std::size_t kLineCount = 10;  // of progress, where nobody watches

double seconds_of(const std::string& text) {
  constexpr struct {
    std::string_view unit;
    double seconds;
  } kUnits[] = {{"s", 1}, {"min", 60}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, text.data() + text.size());
  constexpr double kSecondsMax = 365.0 * 86400;
  for (const auto& known : kUnits) {
    const double seconds = number * known.seconds;
    if (error == std::errc() && unit == known.unit && seconds > 0 && seconds <= kSecondsMax) {
      return seconds;
    }
  }
  throw UsageError({.what = "this is no length of time",
                    .where = "--for",
                    .wanted = "a number above 0 with s, min, h or d, a year at most, as in 8h",
                    .got = text});
}

// One line that is written over on a terminal; else a line for each tenth.
class SoakProgress {
 public:
  SoakProgress(std::string label, double seconds) : label_(std::move(label)), seconds_(seconds) {}
  ~SoakProgress() {
    if (on_terminal_ && drawn_) fmt::print(stderr, "\n");
  }
  SoakProgress(const SoakProgress&) = delete;
  SoakProgress& operator=(const SoakProgress&) = delete;
  void show(const SoakRecord& record) {
    const auto part = static_cast<std::size_t>(record.done_s() / seconds_ * kLineCount);
    if (on_terminal_) {
      std::string line = label_ + soak_progress(record);
      line.resize(std::min(line.size(), output_width(stderr) - 1));
      clear_terminal_line(stderr);
      fmt::print(stderr, "{}", line);
      std::fflush(stderr);
    } else if (part > part_) {
      fmt::print(stderr, "{}{}\n", label_, soak_progress(record));
    }
    part_ = part;
    drawn_ = true;
  }

 private:
  std::string label_;
  double seconds_;
  bool on_terminal_ = isatty(STDERR_FILENO) == 1;
  bool drawn_ = false;
  std::size_t part_ = 0;
};

std::string soak_path(const fs::path& folder, const CellKey& key) {
  return (folder / "soak" / (key.id() + ".jsonl")).string();
}

// `place` names the file of the cell's windows.
SoakReport soak_cell(const SoakSpec& spec, const SoakPlace& place, const std::string& label) {
  fs::create_directories(fs::path(place.path).parent_path());
  SoakProgress progress(label, spec.seconds);
  SoakReport report{.record = soak_in_child(
                        spec, place, [&](const SoakRecord& record) { progress.show(record); }),
                    .drifts = {}};
  report.drifts = find_drifts(report.record);
  return report;
}

// As files of the run, and on stdout in the form that was asked for.
void write_soaks(const RunCommand& command, const std::string& folder, const std::string& text,
                 const std::string& json) {
  write_file((fs::path(folder) / "soak.txt").string(), text);
  write_file((fs::path(folder) / "soak.json").string(), json);
  if (command.format == "table") {
    print_fitted(stdout, text);
  } else {
    fmt::print("{}", json);
  }
  std::fflush(stdout);
}

ExitCode tell(const RunCommand& command, const std::string& folder,
              const std::vector<SoakReport>& reports, bool interrupted) {
  std::string text;
  for (const SoakReport& report : reports) text += render_soak(report) + "\n";
  write_soaks(command, folder, text, to_json(reports) + "\n");
  std::FILE* people = command.format == "table" ? stdout : stderr;
  bool whole = true;
  bool grows = false;
  fmt::print(people, "results: {}\n", folder);
  for (const SoakReport& report : reports) {
    print_wrapped(people, "answer: " + soak_answer(report));
    whole = whole && report.record.is_whole();
    grows = grows || drifts_up(report);
  }
  if (!whole || interrupted) {
    fmt::print(stderr, "{}; to go on: allocmark run --for {} --resume --out {}\n",
               interrupted ? "interrupted" : "not whole", command.soak_for, shell_word(folder));
    return ExitCode::CellsIncomplete;
  }
  return grows ? ExitCode::Regression : ExitCode::Pass;
}

}  // namespace

void check_soak_usage(const RunCommand& command) {
  (void)seconds_of(command.soak_for);
  const auto refuse = [](const char* option) {
    throw UsageError(
        {.what = "this does not go together with --for", .where = option, .next = "leave it out"});
  };
  if (!command.ab.empty() && command.resume) refuse("--resume");
  if (command.pass_count) refuse("--passes");
  if (!command.placements_folder.empty()) refuse("--record-placements");
  if (command.timeline) refuse("--timeline");
  if (!command.until_width.empty()) refuse("--until-width");
  if (command.job_count.value_or(1) != 1) refuse("--jobs");
  if (command.gpu_count > 0) refuse("--gpus");
  if (command.format == "table" || command.format == "json") return;
  throw UsageError({.what = "a soak is not printed in this form",
                    .where = "--format",
                    .wanted = "table or json",
                    .got = command.format,
                    .next = "the windows are in DIR/soak/, a line for each"});
}

ExitCode soak_cells(const RunCommand& command, const RunManifest& manifest,
                    const std::vector<CellKey>& cells, const std::string& folder,
                    const Environment& environment) {
  const RunFolder lock = RunFolder::open(command.resume, folder, manifest, environment);
  const InterruptGuard interrupt;
  const double seconds = seconds_of(command.soak_for) / static_cast<double>(cells.size());
  std::vector<SoakReport> reports;
  for (const CellKey& key : cells) {
    const SoakSpec spec{.key = key,
                        .verify = manifest.verify,
                        .seconds = seconds,
                        .window_s = seconds / kWindowCount};
    const std::string label =
        cells.size() == 1 ? "" : fmt::format("soak {} of {}: ", reports.size() + 1, cells.size());
    reports.push_back(soak_cell(spec,
                                {.program_path = own_program_path(),
                                 .path = soak_path(folder, key),
                                 .interrupt = &interrupt},
                                label));
    if (interrupt.requested()) break;
  }
  return tell(command, folder, reports, interrupt.requested());
}

ExitCode soak_sides(const RunCommand& command, const SoakedSides& sides,
                    const std::string& folder) {
  const InterruptGuard interrupt;
  const double seconds = seconds_of(command.soak_for) / static_cast<double>(sides.cells.size());
  std::vector<SoakPair> pairs;
  bool whole = true;
  bool worse = false;
  std::string text;
  for (const std::array<CellKey, 2>& keys : sides.cells) {
    std::array<SoakReport, 2> reports;
    for (std::size_t side = 0; side < keys.size(); ++side) {
      const std::string name = side == 0 ? "A" : "B";
      reports.at(side) = soak_cell({.key = keys.at(side),
                                    .verify = sides.verify,
                                    .seconds = seconds,
                                    .window_s = seconds / kWindowCount},
                                   {.program_path = sides.program_paths.at(side),
                                    .path = soak_path(fs::path(folder) / name, keys.at(side)),
                                    .interrupt = &interrupt},
                                   name + ": ");
    }
    if (interrupt.requested()) break;
    pairs.push_back({.base = std::move(reports[0]), .now = std::move(reports[1])});
    text += render_soak_pair(pairs.back()) + "\n";
    whole = whole && pairs.back().base.record.is_whole();
    worse = worse || is_worse(pairs.back());
  }
  write_soaks(command, folder, text, to_json(pairs) + "\n");
  fmt::print(command.format == "table" ? stdout : stderr, "results: {}\nanswer: {}\n", folder,
             worse ? "B grows where A does not" : "B grows nowhere more than A");
  if (worse) return ExitCode::Regression;
  return whole && !interrupt.requested() ? ExitCode::Pass : ExitCode::CellsIncomplete;
}

}  // namespace allocmark
