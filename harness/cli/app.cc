// See app.h.
#include "harness/cli/app.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include "base/error.h"
#include "base/nearest.h"

namespace allocmark {
namespace {

constexpr const char* kDescription =
    "allocmark - stress tests and benchmarks for GPU memory allocators.\n"
    "Replays what real programs do with memory on an allocator, and says for each config string "
    "how long its calls\n"
    "take, whether it runs out of memory, and how much it wastes. Needs no GPU: one is simulated "
    "where there is none.\n";

constexpr const char* kMainFooter =
    "\nExamples:\n"
    "  allocmark run                                  the default suite, on a GPU if there is one\n"
    "  allocmark run --workload gpt2_train_amp --allocator caching \\\n"
    "      --conf unset --conf max_split_size_mb:128 --capacity 1.05x\n"
    "  allocmark explain max_split_size_mb:128\n"
    "\nExit codes: 0 done; 1 regression, mismatch or an unfit GPU; 2 wrong usage; 3 cells crashed, "
    "timed out or are missing; 4 the machine "
    "is unfit;\n"
    "5 a bug in allocmark. Running out of memory is a result, not an error.\n";

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

[[noreturn]] void throw_parse_error(const CLI::ParseError& error, const CLI::App& app,
                                    const std::vector<std::string>& words) {
  const CLI::App& where = deepest_app(app);
  const std::string path =
      &where == &app
          ? "allocmark"
          : "allocmark " +
                (where.get_parent() == &app ? "" : where.get_parent()->get_name() + " ") +
                where.get_name();
  const std::string help = fmt::format("see: {} --help", path);
  if (const std::optional<UnknownWord> unknown = find_unknown_word(app, words)) {
    throw UsageError({.what = fmt::format("'{}' is not known here", unknown->word),
                      .where = path,
                      .wanted = "",
                      .got = "",
                      .next = suggest(unknown->word, unknown->known) + "; " + help});
  }
  throw UsageError({.what = error.what(), .where = path, .wanted = "", .got = "", .next = help});
}

}  // namespace

Program::Program() = default;
Program::Program(Program&&) noexcept = default;
Program::~Program() = default;

Program make_program(const std::string& version) {
  Program program;
  program.app = std::make_unique<CLI::App>(kDescription, "allocmark");
  CLI::App& app = *program.app;
  app.set_version_flag("--version", "allocmark " + version);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default(false);
  app.get_formatter()->column_width(34);
  for (const CommandEntry& entry : command_registry()) {
    CLI::App* const command =
        app.add_subcommand(std::string(entry.name), std::string(entry.summary));
    program.runs.emplace_back(entry.name, entry.add(command));
  }
  // Last, because subcommands take over the footer that is there when they are added.
  app.footer(kMainFooter);
  return program;
}

ParsedLine parse_command_line(int argc, const char* const* argv, const std::string& version) {
  const Program program = make_program(version);
  CLI::App& app = *program.app;
  ParsedLine line{.text = "", .run = nullptr, .argv = {argv, argv + argc}};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    std::ostringstream text;
    app.exit(success, text, text);
    line.text = text.str();
    return line;
  } catch (const CLI::ParseError& error) {
    throw_parse_error(error, app, {line.argv.begin() + 1, line.argv.end()});
  }
  for (const auto& [name, run] : program.runs) {
    if (app.got_subcommand(std::string(name))) line.run = run;
  }
  return line;
}

}  // namespace allocmark
