// Completion scripts for bash, zsh and fish. See command_text.h.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include "harness/shell/command_text.h"

namespace allocmark {
namespace {

// Names as 'allocmark list KIND' prints them: the first word of each line that is set in.
constexpr const char* kListFunction =
    "_allocmark_names() { allocmark list \"$1\" 2>/dev/null | sed -n 's/^  *\\([^ ]*\\).*/\\1/p'; "
    "}\n";

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<CommandText>& commands) {
  std::vector<std::string> names;
  for (const CommandText& command : commands) names.push_back(command.path.back());
  return names;
}

// In single quotes for a shell.
std::string in_single_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// What bash's `compgen` is told for a value.
std::string bash_values(const OptionText& option) {
  const std::string source = value_source(option);
  if (!option.choices.empty())
    return fmt::format("-W {}", in_single_quotes(joined(option.choices, " ")));
  if (source == "files") return "-f";
  if (source == "folders") return "-d";
  return source.empty() ? "" : fmt::format("-W \"$(_allocmark_names {})\"", source);
}

void append_bash(const CommandText& command, std::string& text) {
  std::vector<std::string> words = names_of(command.commands);
  std::string plain;
  text += fmt::format("    '{}')\n      case $option in\n", joined(command.path, " "));
  for (const OptionText& option : command.options) {
    const std::string values = option.value.empty() ? "" : bash_values(option);
    if (option.is_positional) {
      if (!values.empty()) plain = values;
      continue;
    }
    words.insert(words.end(), option.names.begin(), option.names.end());
    if (option.value.empty()) continue;
    // Only right after its option, unless it takes several values.
    text += fmt::format("        {}) {}values={} ;;\n", joined(option.names, "|"),
                        option.takes_several ? "" : "[ \"$distance\" = 1 ] && ",
                        in_single_quotes(values.empty() ? "none" : values));
  }
  text += fmt::format("      esac\n      words={} plain={} ;;\n",
                      in_single_quotes(joined(words, " ")), in_single_quotes(plain));
  for (const CommandText& part : command.commands) append_bash(part, text);
}

std::string zsh_values(const OptionText& option) {
  const std::string source = value_source(option);
  if (!option.choices.empty()) return fmt::format("({})", joined(option.choices, " "));
  if (source == "files") return "_files";
  if (source == "folders") return "_files -/";
  return source.empty() ? " " : fmt::format("($(_allocmark_names {}))", source);
}

// In an _arguments specification brackets and colons have a meaning of their own.
std::string zsh_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

void append_zsh_arguments(const CommandText& command, std::string& text) {
  for (const OptionText& option : command.options) {
    const std::string tail =
        option.value.empty() ? ""
                             : fmt::format(":{}:{}", zsh_escaped(option.value), zsh_values(option));
    if (option.is_positional) {
      text += fmt::format(" \\\n        {}",
                          in_single_quotes("*:" + option.names[0] + ":" + zsh_values(option)));
      continue;
    }
    for (const std::string& name : option.names) {
      text += fmt::format(
          " \\\n        {}",
          in_single_quotes("*" + name + "[" + zsh_escaped(option.description) + "]" + tail));
    }
  }
}

void append_zsh(const CommandText& command, const std::string& function, std::string& text) {
  text += fmt::format("{}() {{\n", function);
  if (command.commands.empty()) {
    text += "  _arguments -s";
    append_zsh_arguments(command, text);
    text += "\n}\n";
    return;
  }
  text += "  local -a commands\n  commands=(\n";
  for (const CommandText& part : command.commands) {
    text += fmt::format("    {}\n",
                        in_single_quotes(part.path.back() + ":" + zsh_escaped(part.summary)));
  }
  text += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    _arguments -s";
  append_zsh_arguments(command, text);
  text +=
      "\n    return\n  fi\n  local name=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $name "
      "in\n";
  for (const CommandText& part : command.commands) {
    text += fmt::format("    {}) {}_{} ;;\n", part.path.back(), function, part.path.back());
  }
  text += "  esac\n}\n";
  for (const CommandText& part : command.commands) {
    append_zsh(part, function + "_" + part.path.back(), text);
  }
}

void append_fish_option(const OptionText& option, const std::string& condition, std::string& text) {
  std::string line = fmt::format("complete -c allocmark -n {}", in_single_quotes(condition));
  for (const std::string& name : option.names) {
    if (option.is_positional) continue;
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  const std::string source = value_source(option);
  if (!option.choices.empty()) {
    line += fmt::format(" -x -a {}", in_single_quotes(joined(option.choices, " ")));
  } else if (source == "folders") {
    line += " -x -a '(__fish_complete_directories)'";
  } else if (source == "files") {
    line += option.is_positional ? " -F" : " -r -F";
  } else if (!source.empty()) {
    line += fmt::format(" -x -a '(_allocmark_names {})'", source);
  } else if (!option.value.empty()) {
    line += " -x";
  }
  text += line + " -d " + in_single_quotes(option.description) + "\n";
}

void append_fish(const CommandText& command, std::string& text) {
  std::string inside = "__fish_use_subcommand";
  if (!command.path.empty()) {
    inside.clear();
    for (const std::string& word : command.path) {
      inside += (inside.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
    }
  }
  std::string before = inside;
  if (!command.path.empty() && !command.commands.empty()) {
    before += "; and not __fish_seen_subcommand_from " + joined(names_of(command.commands), " ");
  }
  for (const CommandText& part : command.commands) {
    text += fmt::format("complete -c allocmark -n {} -a {} -d {}\n", in_single_quotes(before),
                        part.path.back(), in_single_quotes(part.summary));
  }
  for (const OptionText& option : command.options) append_fish_option(option, inside, text);
  for (const CommandText& part : command.commands) append_fish(part, text);
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::string text = "# Made by 'allocmark completion bash'.\n";
  text += kListFunction;
  text +=
      "_allocmark() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} path='' option='' distance=0 words='' plain='' "
      "values='' i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in\n"
      "      -*) option=${COMP_WORDS[i]} distance=0 ;;\n"
      "      *) if [ -z \"$option\" ] && [[ \" $_allocmark_paths \" == "
      "*\"/${path:+$path,}${COMP_WORDS[i]}/\"* ]]; then\n"
      "           path=${path:+$path,}${COMP_WORDS[i]}\n"
      "         fi ;;\n"
      "    esac\n"
      "    distance=$((distance + 1))\n"
      "  done\n"
      "  case ${path//,/ } in\n";
  append_bash(program, text);
  text +=
      "  esac\n"
      "  [[ $current == -* ]] && values=''\n"
      "  if [ \"$values\" = none ]; then COMPREPLY=(); return; fi\n"
      "  [ -n \"$values\" ] || { [[ $current == -* ]] || values=$plain; }\n"
      "  COMPREPLY=()\n"
      "  [ -z \"$values\" ] || eval \"mapfile -t COMPREPLY < <(compgen $values -- "
      "\\\"\\$current\\\")\"\n"
      "  [ -n \"$values\" ] && [ -z \"$plain\" ] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < "
      "<(compgen -W \"$words\" -- \"$current\")\n"
      "}\n_allocmark_paths='";
  for (const CommandText& command : program.commands) {
    text += " /" + command.path[0] + "/";
    for (const CommandText& part : command.commands) text += " /" + joined(part.path, ",") + "/";
  }
  text += "'\ncomplete -F _allocmark allocmark\n";
  return text;
}

std::string zsh_completion(const CommandText& program) {
  std::string text = "#compdef allocmark\n# Made by 'allocmark completion zsh'.\n";
  text += kListFunction;
  append_zsh(program, "_allocmark", text);
  return text +
         "if [ \"$funcstack[1]\" = _allocmark ]; then _allocmark \"$@\"; else compdef _allocmark "
         "allocmark; fi\n";
}

std::string fish_completion(const CommandText& program) {
  std::string text =
      "# Made by 'allocmark completion fish'.\n"
      "function _allocmark_names\n"
      "    allocmark list $argv[1] 2>/dev/null | string replace -rf '^ +(\\S+).*' '$1'\n"
      "end\ncomplete -c allocmark -f\n";
  append_fish(program, text);
  return text;
}

}  // namespace allocmark
