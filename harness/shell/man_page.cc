// The manual page: every command and option, in troff's "man" macros. See command_text.h.
#include <string>
#include <string_view>

#include <fmt/format.h>
#include "harness/shell/command_text.h"

namespace allocmark {
namespace {

// Backslashes and dashes as themselves; a line that begins with a dot or an apostrophe is no
// request.
std::string escaped(std::string_view text) {
  std::string result;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
    at_line_start = c == '\n';
  }
  return result;
}

std::string joined(const CommandText& command) {
  std::string text = "allocmark";
  for (const std::string& word : command.path) text += " " + word;
  return text;
}

void append_option(const OptionText& option, std::string& page) {
  std::string names;
  for (const std::string& name : option.names) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", escaped(name));
  }
  std::string value = option.value;
  if (!option.choices.empty()) {
    value.clear();
    for (const std::string& choice : option.choices) value += (value.empty() ? "" : " | ") + choice;
  }
  if (!value.empty()) names += fmt::format(" \\fI{}\\fR", escaped(value));
  if (option.takes_several) names += " ...";
  page += fmt::format(".TP\n{}\n{}\n", names, escaped(option.description));
}

void append_command(const CommandText& command, std::string& page) {
  const bool is_program = command.path.empty();
  if (!is_program) {
    page += fmt::format(".SS {}\n{}\n", escaped(joined(command)), escaped(command.summary));
  }
  for (const OptionText& option : command.options) append_option(option, page);
  if (is_program) page += ".SH COMMANDS\n";
  if (!is_program && !command.footer.empty()) {
    page += fmt::format(".PP\n.nf\n{}\n.fi\n", escaped(command.footer));
  }
  for (const CommandText& part : command.commands) append_command(part, page);
}

}  // namespace

std::string man_page(const CommandText& program, const std::string& version) {
  std::string page = fmt::format(
      ".\\\" Made by 'allocmark man' from the option parser.\n"
      ".TH ALLOCMARK 1 \"\" \"allocmark {}\" \"User Commands\"\n"
      ".SH NAME\nallocmark \\- stress tests and benchmarks for GPU memory allocators\n"
      ".SH SYNOPSIS\n.B allocmark\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
      ".SH DESCRIPTION\n{}\n.SH OPTIONS\n",
      escaped(version), escaped(program.summary));
  append_command(program, page);
  page += fmt::format(".SH EXAMPLES AND EXIT CODES\n.nf\n{}\n.fi\n", escaped(program.footer));
  return page;
}

}  // namespace allocmark
