// What went wrong, in the form every message of ours takes: what, where, wanted, got, next step.
// Thrown for bad input, files out of reach and machines that are not ready; caught only in `main`
// and in the cell process.
#pragma once

#include <stdexcept>
#include <string>

#include "base/exit_code.h"

namespace allocmark {

struct ErrorText {
  std::string what;      // one sentence: what is wrong
  std::string where{};   // file:line, key and column, flag; empty where there is no place
  std::string wanted{};  // what is allowed; empty where it says nothing new
  std::string got{};     // what was found; empty where it says nothing new
  std::string next{};    // what the reader can do now; empty where nothing helps
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

// Bad command line or config string, or an input file with bad content: exit code 2.
class UsageError : public Error {
 public:
  explicit UsageError(ErrorText text) : Error(ExitCode::Usage, std::move(text)) {}
};

// A device or the system is not ready for what was asked: exit code 4.
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(ErrorText text) : Error(ExitCode::NotReady, std::move(text)) {}
};

// Cells, or processes like them, gave no result: exit code 3.
class CellsError : public Error {
 public:
  explicit CellsError(ErrorText text) : Error(ExitCode::CellsIncomplete, std::move(text)) {}
};

// A bug of ours that can be told before it does harm: exit code 5.
class InternalError : public Error {
 public:
  explicit InternalError(ErrorText text) : Error(ExitCode::Internal, std::move(text)) {}
};

// A file or folder cannot be found, read or written, whatever it holds: exit code 6.
class FileError : public Error {
 public:
  explicit FileError(ErrorText text) : Error(ExitCode::FileAccess, std::move(text)) {}
};

// Of those, what was to be written: the disk is full, the folder read-only. A cell ends with it.
class WriteError : public FileError {
 public:
  using FileError::FileError;
};

}  // namespace allocmark
