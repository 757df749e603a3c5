// The command line: the tree of all commands and their options, built from the registry. argv flows
// in; what to run flows out, or the text of --help and --version, or a UsageError. Whatever is made
// from the whole command line (man pages, completions, the test of the conventions) walks this
// tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/shell/registry.h"

namespace allocmark {

// What every command has beside its own options, as parsed.
struct CommonOptions {
  bool quiet = false;              // no notes and no progress on stderr
  std::vector<std::string> notes;  // for people, on stderr
};

struct CommandLineApp {
  std::unique_ptr<CLI::App> app;  // its subcommands are the commands, in the registry's order
  std::vector<std::pair<std::string_view, CommandRun>> runs;  // by the command's name

  std::shared_ptr<CommonOptions> common;

  CommandLineApp();
  CommandLineApp(CommandLineApp&&) noexcept;
  ~CommandLineApp();
};

[[nodiscard]] CommandLineApp make_program(const std::string& version);

struct ParsedLine {
  std::string text;  // to be printed; all there is to do where `run` is empty
  CommandRun run;
  std::vector<std::string> argv;
  bool quiet = false;
  std::vector<std::string> notes = {};
  bool is_help = false;  // the text is for people: it may be wrapped
};

[[nodiscard]] ParsedLine parse_command_line(int argc, const char* const* argv,
                                            const std::string& version);

}  // namespace allocmark
