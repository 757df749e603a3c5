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
class Option;
}  // namespace CLI

namespace allocmark {

// Prints the answer to stdout and returns the exit code; problems are thrown as Error. `argv` is
// the whole command line.
using CommandRun = std::function<ExitCode(const std::vector<std::string>& argv)>;

struct CommandEntry {
  std::string_view name;
  std::string_view summary;  // one line of 'allocmark --help'
  CommandRun (*add)(CLI::App* app);
  bool runs_program = false;  // what follows '--' is a program with its arguments
};

// In the order of the help text; none before set_commands, which main calls first. A new command is
// a file X_command.cc in its tool's folder that ends with its entry, and its name in that folder's
// CMakeLists.txt.
[[nodiscard]] std::span<const CommandEntry> command_registry();
void set_commands(std::span<const CommandEntry* const> commands);

// The option --format, as every command has it that prints its answer in one of `forms`; `text` is
// its help.
CLI::Option* add_format(CLI::App* app, std::string* format, const std::string& text,
                        const std::vector<std::string>& forms);

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
