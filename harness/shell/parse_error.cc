// See parse_error.h.
#include "harness/shell/parse_error.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include "allocators/caching/release.h"
#include "base/error.h"
#include "base/nearest.h"
#include "harness/shell/help_formatter.h"
#include "harness/shell/registry.h"
#include "harness/shell/stray_word.h"

namespace allocmark {
namespace {

// Names a user may have meant: the subcommands and options of the deepest app that was entered.
std::vector<std::string> known_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(subcommand->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
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
    if (is_known && wants_subcommand && !name.starts_with("-")) app = app->get_subcommand(name);
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
    {"--gpu", "--device"},           {"--gpu-id", "--device"},
    {"--memory", "--capacity"},      {"--threshold", "--min-effect"},
    {"--iterations", "--passes"},    {"--repeat", "--passes"},
    {"--runs", "--passes"},          {"--config", "--conf"},
    {"--output-dir", "--out"},       {"--card", "--device"},
    {"--device", "--memory"},        {"--capacity", "--memory"},
    {"--setting", "--conf"},         {"--torch", "--pytorch"},
    {"--torch-version", "--pytorch"}};

// Commands that are programs of their own.
struct OtherProgram {
  std::string_view said, program;
};
constexpr OtherProgram kOtherPrograms[] = {{"speed", "allocmark_bench"}};

// Keys of a workload that are given as if they were options.
constexpr std::string_view kWorkloadKeys[] = {
    "--model", "--batch",     "--batch-size", "--seq",  "--seq-len",  "--steps",
    "--dtype", "--precision", "--optimizer",  "--lora", "--quantize", "--checkpoint"};

bool is_known(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// The word behind an option, or behind its '='.
std::string value_of(std::string_view option, const std::vector<std::string>& words) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (words[at].starts_with(std::string(option) + "="))
      return words[at].substr(option.size() + 1);
    if (words[at] == option && at + 1 < words.size()) return words[at + 1];
  }
  return "";
}

// Of an option that is a word without an option here: "allocmark advise W", not "--workload W".
std::string positional_hint(const CLI::App& app, std::string_view option,
                            const std::vector<std::string>& words) {
  const std::string_view name = option == "-w" ? "workload" : option.substr(2);
  for (const CLI::Option* known : app.get_options()) {
    const std::string own = known->get_single_name();
    if (!known->get_positional() || (own != name && own != std::string(name) + "s")) continue;
    const std::string value = value_of(option, words);
    return fmt::format("the {} stands without an option: did you mean '{} {}'?", name, path_of(app),
                       value.empty() ? known->get_type_name() : value);
  }
  return "";
}

// A release is an allocator of that name, where --pytorch is not an option.
std::string release_hint(const UnknownWord& unknown, const std::vector<std::string>& words) {
  if (unknown.word != "--pytorch" || !is_known(unknown.known, "--allocator")) return "";
  const auto read = caching::read_release(value_of(unknown.word, words));
  const caching::Rules* rules = read ? caching::find_rules(read->number) : nullptr;
  const std::string allocator = rules == nullptr ? "caching@2.10" : rules->allocator();
  return fmt::format("a release of PyTorch is an allocator here: did you mean '-a {}'?{}",
                     allocator, read && !read->note.empty() ? " " + read->note : "");
}

std::string meant_by(const CLI::App& app, const UnknownWord& unknown,
                     const std::vector<std::string>& words) {
  for (const OtherProgram& other : kOtherPrograms) {
    if (app.get_parent() != nullptr || other.said != unknown.word) continue;
    return fmt::format("it is a program now: {}, built beside allocmark", other.program);
  }
  if (std::string hint = release_hint(unknown, words); !hint.empty()) return hint;
  if (std::string hint = positional_hint(app, unknown.word, words); !hint.empty()) return hint;
  for (const OtherOption& other : kOtherOptions) {
    if (other.said != unknown.word) continue;
    if (std::ranges::find(unknown.known, other.meant) == unknown.known.end()) continue;
    return fmt::format("did you mean '{}'?", other.meant);
  }
  if (std::ranges::find(kWorkloadKeys, unknown.word) != std::end(kWorkloadKeys)) {
    return "that is said in the workload's own word, as in train:gpt2-124m,batch=8,precision=bf16";
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
                      .next = program_hint(deepest_app(app)) +
                              meant_by(deepest_app(app), *unknown, words) + "; " + help});
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
    std::string meant = stray == "-w" ? positional_hint(where, stray, words) : "";
    if (meant.empty()) meant = joined_keys_hint(words);
    if (meant.empty()) meant = option_for(stray, known_names(where));
    if (!meant.empty()) next = meant + " " + help;
  } else {
    next = takes(where, error.what()) + help;
  }
  throw UsageError({.what = plain_message(error.what()), .where = path, .next = next});
}

}  // namespace allocmark
