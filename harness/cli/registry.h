// The commands of the program: one row each. `add` gives a command's options to its part of the
// command line and returns what carries it out once the words are parsed.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
}

namespace allocmark {

struct JobEntry;  // harness/job/job.h

// Prints the answer to stdout and returns the exit code; problems are thrown as Error. `argv` is
// the whole command line.
using CommandRun = std::function<ExitCode(const std::vector<std::string>& argv)>;

struct CommandEntry {
  std::string_view name;
  std::string_view summary;  // one line of 'allocmark --help'
  CommandRun (*add)(CLI::App* app);
  bool runs_program = false;  // what follows '--' is a program with its arguments
};

// In the order of the help text. A new command is a file X_command.cc that ends with its entry, and
// its name in CMakeLists.txt.
[[nodiscard]] std::span<const CommandEntry> command_registry();

// What other processes do for commands. A new job is a file that ends with its entry, and its name
// in CMakeLists.txt.
[[nodiscard]] std::span<const JobEntry* const> job_registry();

// The usual `add`: options are written to an Options, which `run` then gets.
template <typename Options>
CommandRun bind_command(CLI::App* app, void (*add_options)(CLI::App*, Options*),
                        ExitCode (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  add_options(app, options.get());
  return [options, run](const std::vector<std::string>& argv) {
    if constexpr (requires { options->argv; }) options->argv = argv;
    return run(*options);
  };
}

}  // namespace allocmark
