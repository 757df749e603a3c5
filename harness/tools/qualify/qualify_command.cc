// 'allocmark qualify': is this machine fit? Prints the report, writes it where a folder is given.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/shell/options.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/qualify/baseline.h"
#include "harness/tools/qualify/conduct.h"
#include "harness/tools/qualify/report_json.h"
#include "harness/tools/qualify/spread.h"
#include "harness/tools/qualify/test.h"
#include "harness/tools/qualify/writers.h"
#include "results/columns/text.h"
#include "results/json.h"

namespace allocmark {
namespace {

struct QualifyCommand {
  qualify::ConductOptions options;
  std::string level = "quick";
  std::string thresholds;  // a file; empty = what ships
  std::string format = "table";
  std::string out;     // folder; empty = none
  double seconds = 0;  // instead of the level's; 0 = the level's
  std::string fail_on = "fail";
  bool one_line = false;
  bool print_thresholds = false;
  std::vector<std::string> argv;  // the whole command line, for the results file
};

void add_output(CLI::App* app, QualifyCommand* command) {
  add_value(app, "--node", command->options.node_name, "NAME",
            "Name of this node in reports [the host's]");
  app->add_flag("--anonymous", command->options.is_anonymous,
                "Leave out the node's name and the GPUs' UUIDs, serial numbers and PCI addresses");
  add_format(app, &command->format,
             "What is printed: table, json, junit, prometheus, nvsentinel, superbench or dcgm",
             {"table", "json", "junit", "prometheus", "nvsentinel", "superbench", "dcgm"});
  app->add_flag(
         "--one-line", command->one_line,
         "Print one line, and exit as node-problem-detector wants it: 0 fit, 1 not, 2 unknown")
      ->excludes("--format");
  add_value(app, "-o,--out", command->out, "DIR",
            "Folder for all formats, and for tests.jsonl, which grows while the tests run");
}

void add_qualify(CLI::App* app, QualifyCommand* command) {
  add_default(app, "--level", command->level, "L",
              "quick (one round of every test, under a minute per GPU), medium (5 minutes), long "
              "(30 minutes) or extra-long (8 hours)");
  add_default(app, "-d,--device", command->options.device, "D",
              "all (GPUs of this machine), cuda:N, or sim:NAME to see how it works");
  add_value(app, "--gpus", command->options.simulated_gpu_count, "N",
            "How many GPUs to simulate, with sim:NAME")
      ->check(CLI::Range(1u, 16u));
  add_value(app, "--thresholds", command->thresholds, "FILE",
            "JSON file whose thresholds replace those that ship");
  app->add_flag("--print-thresholds", command->print_thresholds,
                "Print the thresholds that ship, as a start for your own, and do nothing else");
  add_value(app, "--baseline", command->options.baseline_path, "FILE",
            "What to compare latencies with: a device profile, or a file of 'merge "
            "--baseline' from many machines [what ships for the GPU's model]");
  add_value(app, "--seconds", command->seconds, "S",
            "Time of tests per GPU, instead of the level's")
      ->check(number_range(1.0, 1e7));
  add_default(app, "--time-limit", command->options.time_limit_s, "S",
              "Seconds that a test may run beyond its time before it is ended and FAIL")
      ->check(number_range(1.0, 1e6));
  add_value(app, "--time-budget", command->options.time_budget_s, "S",
            "Seconds for everything; tests without time left are SKIP, and health still runs "
            "[no budget]")
      ->check(number_range(1.0, 1e7));
  add_default(app, "--fail-on", command->fail_on, "V", "The mildest verdict with exit code 1")
      ->check(CLI::IsMember({"fail", "warn"}));
  add_output(app, command);
  app->footer(
      "\nVerdicts: PASS, WARN, FAIL, SKIP per GPU and test; a precondition that is not met is "
      "never a PASS.\nExit codes: 0 PASS or WARN; 1 a GPU is unfit: replace or drain it; 2 usage; "
      "4 not ready, try again later:\nno GPU, or another process, heat or an old driver is in the "
      "way, and nothing else failed.\nNothing on the machine is changed. GPUs that other programs "
      "use are not touched.\n");
}

qualify::ConductOptions options_of(const QualifyCommand& command) {
  qualify::ConductOptions options = command.options;
  options.level = qualify::find_level(command.level);
  if (command.seconds > 0) options.level.seconds = command.seconds;
  if (options.device == "auto") options.device = "all";
  if (options.device != "all") check_device(options.device);
  if (options.simulated_gpu_count > 0 && !is_simulated(options.device)) {
    throw UsageError({.what = "only simulated GPUs can be counted out",
                      .where = "--gpus",
                      .wanted = "--device sim:NAME",
                      .got = options.device,
                      .next = "choose a real one with --device cuda:N"});
  }
  if (command.fail_on == "warn") options.fails_from = qualify::Verdict::Warn;
  options.program_path = own_program_path();
  options.thresholds = qualify::default_thresholds();
  if (!command.thresholds.empty()) {
    options.thresholds = qualify::with_thresholds(
        options.thresholds, read_file(command.thresholds, kSettingsInput), command.thresholds);
  }
  if (!options.baseline_path.empty()) {
    const std::string given = options.baseline_path;
    options.baseline_path = std::filesystem::absolute(given).string();
    const std::string text = read_file(options.baseline_path, kSettingsInput);
    if (qualify::is_spread_file(text)) {
      (void)qualify::spreads_from_json(text, given);
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
  report.thresholds_path =
      command.thresholds.empty() ? qualify::kShippedThresholds : command.thresholds;
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
