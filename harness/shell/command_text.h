// The whole command line as plain data, read from the option parser's own tree: what manual page
// and completions are made from, so that they say what the program takes.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace allocmark {

struct OptionText {
  std::vector<std::string> names;    // "-w", "--workload"; a positional's own name without dashes
  std::string value;                 // what a value is called, "W"; empty for a flag
  std::vector<std::string> choices;  // every value it takes, where that is a short list
  std::string description, group;
  bool is_positional = false, takes_several = false;
};

struct CommandText {
  std::vector<std::string> path;  // {"trace", "summary"}; empty for the program itself
  std::string summary, footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

[[nodiscard]] CommandText command_text(const CLI::App& app);

// A manual page in troff, section 1.
[[nodiscard]] std::string man_page(const CommandText& program, const std::string& version);

// A completion script for bash, zsh or fish. Names of workloads, allocators, scenarios, suites and
// devices are asked from the program when Tab is pressed.
[[nodiscard]] std::string bash_completion(const CommandText& program);
[[nodiscard]] std::string zsh_completion(const CommandText& program);
[[nodiscard]] std::string fish_completion(const CommandText& program);

// What completes an option's value beside its choices: a word of 'allocmark list', "files",
// "folders", or nothing.
[[nodiscard]] std::string value_source(const OptionText& option);

// Adds the commands 'man' and 'completion SHELL'.
void add_text_commands(CLI::App* app);
// What they print where `arguments`, the program's argv, asks for one of them; else empty.
[[nodiscard]] std::string text_command(const CLI::App& app,
                                       const std::vector<std::string>& arguments,
                                       const std::string& version);

}  // namespace allocmark
