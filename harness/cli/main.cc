// The program allocmark: registry.cc lists its commands.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include "base/error.h"
#include "base/streams.h"
#include "harness/cli/app.h"
#include "harness/cli/commands.h"
#include "harness/cli/terminal.h"
#include "harness/run/environment.h"

namespace allocmark {
namespace {

ExitCode run_main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "cell") {
    return cell_command(argc, argv);
  }
  const ParsedLine line = parse_command_line(argc, argv, version_text());
  const QuietStderr quiet(line.quiet);
  for (const std::string& note : line.notes) fmt::print(stderr, "{}\n", note);
  if (line.run) return line.run(line.argv);
  if (line.is_help) {
    print_fitted(stdout, line.text);
  } else {
    fmt::print("{}", line.text);
  }
  return ExitCode::Pass;
}

// A message that begins with its command, "allocmark run: ...", names the program already.
void print_error(std::string_view message) {
  print_fitted(stderr, fmt::format("{}{}\n",
                                   message.starts_with("allocmark") ? "" : "allocmark: ", message));
}

// A full disk or a closed stream must not look like a complete answer. Who stops reading has enough
// of it, and is told nothing. A command that failed already keeps its own code.
ExitCode with_end_of_output(ExitCode code) {
  const StreamEnd end = end_of_stdout();
  if (end == StreamEnd::Failed) print_error("the answer could not be written to stdout");
  return end == StreamEnd::Whole || code != ExitCode::Pass ? code : ExitCode::FileAccess;
}

}  // namespace
}  // namespace allocmark

int main(int argc, char** argv) {
  using allocmark::ExitCode;
  allocmark::guard_streams();
  ExitCode code = ExitCode::Internal;
  try {
    code = allocmark::run_main(argc, argv);
  } catch (const allocmark::Error& error) {
    allocmark::print_error(error.what());
    code = error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    allocmark::print_error(error.what());
    code = ExitCode::FileAccess;
  } catch (const std::exception& error) {
    fmt::print(stderr, "allocmark: internal error: {}\n", error.what());
  }
  return static_cast<int>(allocmark::with_end_of_output(code));
}
