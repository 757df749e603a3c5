// See command_text.h.
#include "harness/shell/command_text.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <CLI/App.hpp>

namespace allocmark {
namespace {

// "F:{table,json}" is a value F with two choices: CLI11 tells them only in words.
void read_type(const std::string& type, OptionText& option) {
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  option.value = type.substr(0, std::min(type.find(':'), open));
  if (open == std::string::npos || close == std::string::npos) return;
  for (std::size_t begin = open + 1; begin < close;) {
    const std::size_t end = std::min(type.find(',', begin), close);
    option.choices.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
}

OptionText option_text(const CLI::Option& from) {
  OptionText option;
  option.description = from.get_description();
  option.group = from.get_group();
  for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
  for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
  option.is_positional = option.names.empty();
  if (option.is_positional) option.names.push_back(from.get_name(true));
  if (from.get_items_expected_max() > 0) read_type(from.get_type_name(), option);
  option.takes_several = from.get_items_expected_max() > 1;
  return option;
}

CommandText text_below(const CLI::App& app, const std::vector<std::string>& path) {
  CommandText command;
  command.path = path;
  command.summary = app.get_description();
  command.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options())
    command.options.push_back(option_text(*option));
  for (const CLI::App* part : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> longer = path;
    longer.push_back(part->get_name());
    command.commands.push_back(text_below(*part, longer));
    // A subcommand starts with its parent's footer; only one of its own is worth saying again.
    if (command.commands.back().footer == command.footer) command.commands.back().footer.clear();
  }
  return command;
}

}  // namespace

CommandText command_text(const CLI::App& app) { return text_below(app, {}); }

std::string value_source(const OptionText& option) {
  static const std::map<std::string_view, std::string_view> kListed = {
      {"--workload", "workloads"},
      {"--allocator", "allocators"},
      {"--scenario", "scenarios"},
      {"--suite", "suites"},
      {"--device", "devices"}};
  static const std::map<std::string_view, std::string_view> kPaths = {
      {"FILE", "files"}, {"TRACE", "files"},  {"FROM", "files"},   {"TO", "files"},
      {"RUN", "files"},  {"GOLDEN", "files"}, {"BUNDLE", "files"}, {"DIR", "folders"}};
  for (const std::string& name : option.names) {
    if (const auto found = kListed.find(name); found != kListed.end()) {
      return std::string(found->second);
    }
  }
  const auto found = kPaths.find(option.value);
  return found == kPaths.end() ? "" : std::string(found->second);
}

void add_text_commands(CLI::App* app) {
  app->add_subcommand("man", "Print the manual page: allocmark man | man -l -")->group("Commands");
  CLI::App* const completion = app->add_subcommand(
      "completion", "Print a shell's completion script: source <(allocmark completion bash)");
  completion->group("Commands");
  completion->add_option("shell", "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
}

std::string text_command(const CLI::App& app, const std::vector<std::string>& arguments,
                         const std::string& version) {
  if (arguments.size() == 2 && arguments[1] == "man") return man_page(command_text(app), version);
  if (arguments.size() != 3 || arguments[1] != "completion") return "";
  if (arguments[2] == "bash") return bash_completion(command_text(app));
  if (arguments[2] == "zsh") return zsh_completion(command_text(app));
  if (arguments[2] == "fish") return fish_completion(command_text(app));
  return "";
}

}  // namespace allocmark
