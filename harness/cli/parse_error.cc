// See parse_error.h.
#include "harness/cli/parse_error.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include "base/error.h"
#include "base/nearest.h"
#include "harness/cli/help_formatter.h"
#include "harness/cli/registry.h"
#include "harness/cli/stray_word.h"

namespace allocmark {
namespace {

// Names a user may have meant: the subcommands and options of the deepest app that was entered.
std::vector<std::string> known_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(subcommand->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

const CLI::App& deepest_app(const CLI::App& app) {
  const std::vector<CLI::App*> entered = app.get_subcommands();
  return entered.empty() ? app : deepest_app(*entered.back());
}

// The first word that is neither a subcommand nor an option where it stands, and what is known
// there.
struct UnknownWord {
  std::string word;
  std::vector<std::string> known;
};

std::optional<UnknownWord> find_unknown_word(const CLI::App& root,
                                             const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (const std::string& word : words) {
    const std::vector<std::string> known = known_names(*app);
    const std::string name = word.substr(0, word.starts_with("--") ? word.find('=') : word.npos);
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    const bool wants_subcommand = app->get_require_subcommand_min() > 0;
    if (!is_known && (name.starts_with("--") || (wants_subcommand && !name.starts_with("-")))) {
      return UnknownWord{.word = name, .known = known};
    }
    if (is_known && wants_subcommand && !name.starts_with("-")) {
      app = app->get_subcommand(name);
    }
  }
  return std::nullopt;
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? "allocmark"
                                     : path_of(*app.get_parent()) + " " + app.get_name();
}

// A program's own options are taken for ours where nothing sets it apart.
std::string program_hint(const CLI::App& app) {
  const bool runs_program = std::ranges::any_of(command_registry(), [&](const CommandEntry& entry) {
    return entry.runs_program && entry.name == app.get_name();
  });
  return runs_program ? "put '--' before the program's name; " : "";
}

// What other tools call an option that is here under another name.
struct OtherOption {
  std::string_view said, meant;
};
constexpr OtherOption kOtherOptions[] = {
    {"--gpu", "--device"},           {"--gpu-id", "--device"},     {"--memory", "--capacity"},
    {"--threshold", "--min-effect"}, {"--iterations", "--passes"}, {"--repeat", "--passes"},
    {"--runs", "--passes"},          {"--config", "--conf"},       {"--output-dir", "--out"}};

std::string meant_by(const UnknownWord& unknown) {
  for (const OtherOption& other : kOtherOptions) {
    if (other.said != unknown.word) continue;
    if (std::ranges::find(unknown.known, other.meant) == unknown.known.end()) continue;
    return fmt::format("did you mean '{}'?", other.meant);
  }
  return suggest(unknown.word, unknown.known);
}

// Of an option's value that was refused: what the option takes.
std::string takes(const CLI::App& app, const std::string& message) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    const std::string value = value_name(*option);
    // Of "N" nobody learns anything.
    if (message.starts_with(name + ":") && value.size() > 1) {
      return fmt::format("{} takes {}; ", name, value);
    }
  }
  return "";
}

// The first word that no option took.
std::string stray_word(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  return words.empty() ? "" : words.front();
}

}  // namespace

void throw_unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string path = path_of(deepest_app(app));
  const std::string help = fmt::format("see: {} --help", path);
  if (const std::optional<UnknownWord> unknown = find_unknown_word(app, words)) {
    throw UsageError({.what = fmt::format("'{}' is not known here", unknown->word),
                      .where = path,
                      .wanted = "",
                      .got = "",
                      .next = program_hint(deepest_app(app)) + meant_by(*unknown) + "; " + help});
  }
}

void throw_parse_error(const CLI::ParseError& error, const CLI::App& app,
                       const std::vector<std::string>& words) {
  const CLI::App& where = deepest_app(app);
  const std::string path = path_of(where);
  const std::string help = fmt::format("see: {} --help", path);
  throw_unknown_word(app, words);
  std::string next = help;
  if (const std::string stray = stray_word(where); !stray.empty()) {
    if (const std::string meant = option_for(stray, known_names(where)); !meant.empty()) {
      next = meant + " " + help;
    }
  } else {
    next = takes(where, error.what()) + help;
  }
  throw UsageError(
      {.what = plain_message(error.what()), .where = path, .wanted = "", .got = "", .next = next});
}

}  // namespace allocmark
