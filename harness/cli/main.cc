// The program allocmark: one subcommand per file of this folder.
#include <cstdio>
#include <exception>
#include <string_view>

#include <fmt/format.h>
#include "base/error.h"
#include "harness/cli/commands.h"
#include "harness/cli/parse.h"
#include "harness/environment.h"

namespace allocmark {
namespace {

ExitCode run_main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "cell") {
    return cell_command(argc, argv);
  }
  const CommandLine line = parse_command_line(argc, argv, version_text());
  if (line.list) return list_command(*line.list);
  if (line.run) return run_command(*line.run);
  if (line.trace) return trace_command(*line.trace);
  if (line.explain) return explain_command(*line.explain);
  if (line.report) return report_command(*line.report);
  if (line.bundle) return bundle_command(*line.bundle);
  if (line.check) return check_command(*line.check);
  if (line.compare) return compare_command(*line.compare);
  if (line.parity) return parity_command(*line.parity);
  if (line.speed) return speed_command(*line.speed);
  if (line.qualify) return qualify_command(*line.qualify);
  if (line.profile) return profile_command(*line.profile);
  if (line.fidelity) return fidelity_command(*line.fidelity);
  fmt::print("{}", line.text);
  return ExitCode::Pass;
}

}  // namespace
}  // namespace allocmark

int main(int argc, char** argv) {
  try {
    return static_cast<int>(allocmark::run_main(argc, argv));
  } catch (const allocmark::Error& error) {
    fmt::print(stderr, "allocmark: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "allocmark: internal error: {}\n", error.what());
    return static_cast<int>(allocmark::ExitCode::Internal);
  }
}
