#include "base/error.h"

namespace allocmark {

std::string to_string(const ErrorText& text) {
  std::string line = text.where.empty() ? text.what : text.where + ": " + text.what;
  if (!text.wanted.empty()) line += "; wanted " + text.wanted;
  if (!text.got.empty()) line += "; got " + text.got;
  if (!text.next.empty()) line += ". " + text.next;
  return line;
}

Error::Error(ExitCode exit_code, ErrorText text)
    : std::runtime_error(to_string(text)), exit_code_(exit_code), text_(std::move(text)) {}

}  // namespace allocmark
