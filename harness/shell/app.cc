// See app.h.
#include "harness/shell/app.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include "allocators/caching/release.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/device/card_names.h"
#include "harness/shell/command_text.h"
#include "harness/shell/help_formatter.h"
#include "harness/shell/parse_error.h"
#include "results/utf8.h"

namespace allocmark {
namespace {

// Config strings as they are pasted: with the variable they are exported in, or in quotes of their
// own. Text flows in; the config string flows out, and a note where they differ.

struct PastedConf {
  std::string conf;
  std::string note;  // what was left out; empty: the text was a config string as it stood
};

constexpr std::string_view kVariables[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                           "PYTORCH_HIP_ALLOC_CONF"};

// What people call no config string.
constexpr std::string_view kWordsForNone[] = {"default", "none",     "off",  "no",     "null",
                                              "nothing", "baseline", "base", "native", "empty"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == ';')) text.remove_suffix(1);
  return text;
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                      text.front() == text.back();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// Throws UsageError where the text is a word that people use for no config string: here that is
// unset.
void refuse_words_for_none(const std::string& text) {
  // What stands behind the allocator's name, in "caching=none".
  const std::size_t equals = text.find('=');
  const bool is_named = equals != std::string::npos && text.find(':') == std::string::npos;
  const std::string name = is_named ? text.substr(0, equals + 1) : "";
  std::string word = text.substr(name.size());
  std::ranges::transform(word, word.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool is_capital = word == "unset" && text.substr(name.size()) != word;
  if (!is_capital && std::ranges::find(kWordsForNone, word) == std::end(kWordsForNone)) return;
  throw UsageError({.what = "this is no config string",
                    .where = "--conf '" + text + "'",
                    .wanted = "KEY:VALUE,KEY:VALUE, or unset for none",
                    .next = "did you mean --conf " + name + "unset?"});
}

// "export PYTORCH_CUDA_ALLOC_CONF='max_split_size_mb:128'" is max_split_size_mb:128. No config
// string begins like this, so nothing else can be meant.
PastedConf read_pasted_conf(const std::string& text) {
  std::string_view rest = unquoted(trimmed(text));
  if (rest.starts_with("export ")) rest = trimmed(rest.substr(7));
  for (const std::string_view variable : kVariables) {
    if (rest == fmt::format("unset {}", variable))
      return {.conf = "unset", .note = fmt::format("'{}' is taken as no config string", text)};
    if (!rest.starts_with(variable) || rest.substr(variable.size(), 1) != "=") continue;
    std::string conf(unquoted(trimmed(rest.substr(variable.size() + 1))));
    std::string note = fmt::format("'{}' is taken as the config string '{}'", text, conf);
    return {.conf = std::move(conf), .note = std::move(note)};
  }
  const std::string_view bare = unquoted(text);
  if (bare == text) return {.conf = text, .note = ""};
  return {.conf = std::string(bare),
          .note = fmt::format("the quotes around {} are left out", text)};
}

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
    "\nExit codes (run, and any other command):\n"
    "  0  done, or the answer is good\n"
    "  1  judged and found wanting: a regression, a mismatch, a GPU to replace or drain\n"
    "  2  the command line, a config string or the content of an input file is wrong\n"
    "  3  cells crashed, timed out or are missing\n"
    "  4  the machine is not ready, nothing was judged: try again later or elsewhere\n"
    "  5  a bug in allocmark\n"
    "  6  a file or folder cannot be found, read or written\n"
    "  124  a limit on time ended the program, as 'timeout' does\n"
    "Running out of memory is a result, not an error.\n";

// What an option's value is read as, and a note where that is not what was typed.
struct ReadValue {
  std::string value;
  std::string note;
};

ReadValue read_conf_value(const std::string& text) {
  PastedConf pasted = read_pasted_conf(text);
  refuse_words_for_none(pasted.conf);
  return {.value = std::move(pasted.conf), .note = std::move(pasted.note)};
}

// What is no release is refused where it is used.
ReadValue read_pytorch_value(const std::string& text) {
  const std::optional<caching::ReadRelease> release = caching::read_release(text);
  if (!release) return {.value = text, .note = {}};
  return {.value = release->number, .note = release->note.empty() ? "" : "note: " + release->note};
}

ReadValue read_device_value(const std::string& text) {
  return {.value = device_of_user(text), .note = {}};
}

// A release of `caching` that is not there is told apart from the others: which is nearest, and
// what is known to differ.
ReadValue read_allocator_value(const std::string& text) {
  constexpr std::string_view kReleased = "caching@";
  const bool is_known = std::ranges::any_of(
      release_registry(), [&](const BackendEntry& entry) { return entry.name == text; });
  if (!text.starts_with(kReleased) || is_known) return {.value = text, .note = {}};
  throw UsageError({.what = "there is no allocator '" + text + "'",
                    .where = "--allocator",
                    .next = suggest_backend(text)});
}

struct OptionReader {
  std::string_view option;
  ReadValue (*read)(const std::string& text);
};
// One for every command that has such an option.
constexpr OptionReader kReaders[] = {{"allocator", read_allocator_value},
                                     {"conf", read_conf_value},
                                     {"device", read_device_value},
                                     {"pytorch", read_pytorch_value}};

// What every command has, below its own options.
void add_common(CLI::App* app, const std::shared_ptr<CommonOptions>& common) {
  for (CLI::Option* option : app->get_options()) {
    for (const OptionReader& reader : kReaders) {
      if (option->get_single_name() != reader.option) continue;
      option->transform(
          [common, read = reader.read](const std::string& text) {
            ReadValue value = read(text);
            if (!value.note.empty()) common->notes.push_back(std::move(value.note));
            return value.value;
          },
          "");
    }
  }
  if (app->get_require_subcommand_min() == 0) {
    app->add_flag("-q,--quiet", common->quiet, "Only the answer and errors: no notes, no progress");
  }
  for (CLI::App* part : app->get_subcommands([](const CLI::App*) { return true; })) {
    add_common(part, common);
  }
}

// An empty value, as of an unset variable of a script, would quietly be no value at all. Of config
// strings it is one: unset. What is not UTF-8 could not be stored, nor handed to a cell.
void refuse_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const bool is_conf = option->get_single_name() == "conf";
    for (const std::string& value : option->results()) {
      if (value.empty() && !is_conf) {
        throw UsageError({.what = "this option has an empty value",
                          .where = option->get_name(),
                          .wanted = option->get_type_name(),
                          .got = "''",
                          .next = "give it a value, or leave it out"});
      }
      if (valid_utf8(value) == value) continue;
      throw UsageError({.what = "this value is not UTF-8",
                        .where = option->get_name(),
                        .wanted = "UTF-8, which results can hold",
                        .got = "'" + value + "'",
                        .next = "a file of such a name has to be renamed"});
    }
  }
  for (const CLI::App* part : app.get_subcommands()) refuse_values(*part);
}

// "help run" is "run --help".
std::vector<std::string> without_help_command(std::vector<std::string> words) {
  if (words.size() < 2 || words[1] != "help") return words;
  words.erase(words.begin() + 1);
  words.emplace_back("--help");
  return words;
}

// A program's own words are not looked at.
std::vector<std::string> without_program(std::vector<std::string> words) {
  const auto runs = [&](const CommandEntry& entry) {
    return entry.runs_program && words.size() > 1 && entry.name == words[1];
  };
  if (std::ranges::any_of(command_registry(), runs)) {
    words.erase(std::ranges::find(words, "--"), words.end());
  }
  return words;
}

}  // namespace

CommandLineApp::CommandLineApp() = default;
CommandLineApp::CommandLineApp(CommandLineApp&&) noexcept = default;
CommandLineApp::~CommandLineApp() = default;

CommandLineApp make_program(const std::string& version) {
  CommandLineApp program;
  program.common = std::make_shared<CommonOptions>();
  program.app = std::make_unique<CLI::App>(kDescription, "allocmark");
  CLI::App& app = *program.app;
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(30);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.set_help_flag("-h,--help", "Print this text");
  app.set_version_flag("-V,--version", "allocmark " + version, "Print the version");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default(false);
  for (const CommandEntry& entry : command_registry()) {
    CLI::App* const command =
        app.add_subcommand(std::string(entry.name), std::string(entry.summary))->group("Commands");
    program.runs.emplace_back(entry.name, entry.add(command));
  }
  add_text_commands(&app);
  add_common(&app, program.common);
  app.add_subcommand("help", "Print the help of a command, as in: allocmark help run")
      ->group("Commands")
      ->add_option("command", "The command")
      ->type_name("COMMAND");
  // Last, because subcommands take over the footer that is there when they are added.
  app.footer(kMainFooter);
  return program;
}

ParsedLine parse_command_line(int argc, const char* const* argv, const std::string& version) {
  const CommandLineApp program = make_program(version);
  CLI::App& app = *program.app;
  ParsedLine line{.text = "", .run = nullptr, .argv = {argv, argv + argc}};
  line.text = text_command(app, line.argv, version);
  if (!line.text.empty()) return line;
  const std::vector<std::string> words = without_program(without_help_command(line.argv));
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  try {
    app.parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const CLI::Success& success) {
    throw_unknown_word(app, {words.begin() + 1, words.end()});
    std::ostringstream text;
    app.exit(success, text, text);
    line.text = text.str();
    line.is_help = true;
    return line;
  } catch (const CLI::ParseError& error) {
    throw_parse_error(error, app, {words.begin() + 1, words.end()});
  }
  refuse_values(app);
  line.quiet = program.common->quiet;
  line.notes = program.common->notes;
  for (const auto& [name, run] : program.runs) {
    if (app.got_subcommand(std::string(name))) line.run = run;
  }
  return line;
}

}  // namespace allocmark
