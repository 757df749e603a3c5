// The program allocmark: registry.cc lists its commands.
#include <cstdio>
#include <exception>
#include <string_view>

#include <fmt/format.h>
#include "base/error.h"
#include "harness/cli/app.h"
#include "harness/cli/commands.h"
#include "harness/environment.h"

namespace allocmark {
namespace {

ExitCode run_main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "cell") {
    return cell_command(argc, argv);
  }
  const ParsedLine line = parse_command_line(argc, argv, version_text());
  if (line.run) return line.run(line.argv);
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
