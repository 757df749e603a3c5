// What went wrong, in the form every message of ours takes: what, where, wanted, got, next step.
// Thrown for bad input and unfit environments; caught only in `main` and in the cell process.
#pragma once

#include <stdexcept>
#include <string>

namespace allocmark {

// The process exit codes of every allocmark command (README, section "Exit codes").
enum class ExitCode : int {
  Pass = 0,
  Regression = 1,        // regression found, or a qualification FAIL
  Usage = 2,             // usage error or bad config string
  CellsIncomplete = 3,   // cells crashed, timed out or are missing
  EnvironmentUnfit = 4,  // no GPU, precondition unmet
  Internal = 5,          // a bug of ours
  TimedOut = 124,
};

struct ErrorText {
  std::string what;    // one sentence: what is wrong
  std::string where;   // file:line, key and column, flag; empty where there is no place
  std::string wanted;  // what is allowed; empty where it says nothing new
  std::string got;     // what was found; empty where it says nothing new
  std::string next;    // what the reader can do now; empty where nothing helps
};

// One line for a person; empty fields are left out.
[[nodiscard]] std::string to_string(const ErrorText& text);

// Base of every exception we throw on purpose.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, ErrorText text);
  [[nodiscard]] ExitCode exit_code() const { return exit_code_; }
  [[nodiscard]] const ErrorText& text() const { return text_; }

 private:
  ExitCode exit_code_;
  ErrorText text_;
};

// Bad command line, config string, scenario or trace: exit code 2.
class UsageError : public Error {
 public:
  explicit UsageError(ErrorText text) : Error(ExitCode::Usage, std::move(text)) {}
};

// A file, a device or the system is not as it must be: exit code 4.
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(ErrorText text) : Error(ExitCode::EnvironmentUnfit, std::move(text)) {}
};

}  // namespace allocmark
