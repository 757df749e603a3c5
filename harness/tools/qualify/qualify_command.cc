// 'allocmark qualify': is this machine fit? Prints the report, writes it where a folder is given.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include "base/error.h"
#include "base/output_file.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/qualify/baseline.h"
#include "harness/tools/qualify/conduct.h"
#include "harness/tools/qualify/exports.h"
#include "harness/tools/qualify/parse_qualify.h"
#include "harness/tools/qualify/report_json.h"
#include "harness/tools/qualify/spread.h"
#include "harness/tools/qualify/test.h"
#include "harness/tools/qualify/writers.h"
#include "results/columns/text.h"
#include "results/json.h"

namespace allocmark {
namespace {

qualify::ConductOptions options_of(const QualifyCommand& command) {
  qualify::ConductOptions options;
  options.level = qualify::find_level(command.level);
  if (command.seconds > 0) options.level.seconds = command.seconds;
  options.device = command.device;
  if (command.device == "auto") options.device = "all";
  if (options.device != "all") check_device(options.device);
  if (command.gpu_count > 0 && !is_simulated(options.device)) {
    throw UsageError({.what = "only simulated GPUs can be counted out",
                      .where = "--gpus",
                      .wanted = "--device sim:NAME",
                      .got = options.device,
                      .next = "choose a real one with --device cuda:N"});
  }
  options.simulated_gpu_count = static_cast<int>(command.gpu_count);
  options.time_limit_s = command.time_limit_s;
  options.time_budget_s = command.time_budget_s;
  if (command.fail_on == "warn") options.fails_from = qualify::Verdict::Warn;
  options.node_name = command.node;
  options.is_anonymous = command.anonymous;
  options.program_path = own_program_path();
  options.thresholds = qualify::default_thresholds();
  if (!command.thresholds.empty()) {
    options.thresholds = qualify::with_thresholds(
        options.thresholds, read_file(command.thresholds, kSettingsInput), command.thresholds);
  }
  if (!command.baseline.empty()) {
    options.baseline_path = std::filesystem::absolute(command.baseline).string();
    const std::string text = read_file(options.baseline_path, kSettingsInput);
    if (qualify::is_spread_file(text)) {
      (void)qualify::spreads_from_json(text, command.baseline);
    } else {
      (void)qualify::read_baseline(options.baseline_path);
    }
  }
  return options;
}

// A line per finished test, in the folder and, for people, on stderr.
class ProgressLog {
 public:
  explicit ProgressLog(const std::string& folder) {
    if (folder.empty()) return;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    // The lines of an earlier call are not of this one.
    file_.emplace(LineFile::replace(folder + "/tests.jsonl"));
  }
  void add(const qualify::TestResult& result) {
    fmt::print(stderr, "{} {}{}{}: {:.1f} s\n", to_string(result.verdict), printable(result.gpu),
               result.gpu.empty() ? "" : " ", result.test, result.wall_s);
    if (file_) file_->append(qualify::render_json_line(result));
  }

 private:
  std::optional<LineFile> file_;
};

// What --out writes, and --format prints.
constexpr struct {
  const char *format, *file;
  std::string (*render)(const qualify::Report& report, qualify::Verdict fails_from);
} kForms[] = {
    {"table", "qualify.txt", [](const auto& report, auto) { return render_table(report); }},
    {"json", "qualify.json", [](const auto& report, auto) { return render_json(report); }},
    {"junit", "qualify.xml", qualify::render_junit},
    {"prometheus", "allocmark_qualify.prom",
     [](const auto& report, auto) { return render_prometheus(report); }},
    {"nvsentinel", "nvsentinel.jsonl",
     [](const auto& report, auto) { return render_nvsentinel(report); }},
    {"superbench", "superbench.jsonl",
     [](const auto& report, auto) { return render_superbench(report); }},
    {"dcgm", "dcgm.json", [](const auto& report, auto) { return render_dcgm(report); }},
};

qualify::Report qualify_machine(const QualifyCommand& command,
                                const qualify::ConductOptions& options) {
  ProgressLog log(command.out);
  qualify::Report report = qualify::conduct(
      options, qualify::registry(), [&](const qualify::TestResult& result) { log.add(result); });
  report.environment = to_json_line(host_environment(command.argv));
  report.thresholds_path = command.thresholds.empty() ? "those that ship" : command.thresholds;
  for (const auto& form : kForms) {
    if (command.out.empty()) break;
    write_file(fmt::format("{}/{}", command.out, form.file),
               form.render(report, options.fails_from));
  }
  return report;
}

// node-problem-detector knows these three codes and takes the line as its message.
ExitCode say_one_line(const QualifyCommand& command, const qualify::ConductOptions& options) {
  constexpr auto kUnknown = static_cast<ExitCode>(2);
  try {
    const qualify::Report report = qualify_machine(command, options);
    const bool is_unknown = report.exit_code == ExitCode::NotReady;
    fmt::print("{}{}", is_unknown ? "UNKNOWN: " : "", render_one_line(report));
    return is_unknown ? kUnknown : report.exit_code;
  } catch (const EnvironmentError& error) {
    fmt::print("UNKNOWN: {}\n", printable(error.what()));
    return kUnknown;
  }
}

}  // namespace

ExitCode qualify_command(const QualifyCommand& command) {
  if (command.print_thresholds) {
    fmt::print("{}", qualify::default_thresholds_text());
    return ExitCode::Pass;
  }
  const qualify::ConductOptions options = options_of(command);
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    print_warning("warning: " + reason);
  }
  if (command.one_line) return say_one_line(command, options);
  const qualify::Report report = qualify_machine(command, options);
  for (const auto& form : kForms) {
    if (command.format != form.format) continue;
    const std::string text = form.render(report, options.fails_from);
    if (command.format == "table") {
      print_fitted(stdout, text);
    } else {
      fmt::print("{}", text);
    }
  }
  return report.exit_code;
}

extern const CommandEntry kQualifyCommand;
constinit const CommandEntry kQualifyCommand{
    "qualify", "Say whether this machine's GPUs are fit",
    [](CLI::App* app) { return bind_command(app, add_qualify, qualify_command); }};

}  // namespace allocmark
