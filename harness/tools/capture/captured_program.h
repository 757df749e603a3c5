// A program with the capture library in front. It has our terminal, input and output.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

struct CapturedProgram {
  std::vector<std::string> words;  // the program and its arguments
  std::string folder;              // where its traces go; exists
  std::string library;             // the capture library
  std::string torch_plugin;        // built against the program's PyTorch; empty: none
};

struct ProgramEnd {
  int exit_code = 0;
  int signal_number = 0;  // 0 where it exited by itself
};

// Starts it and waits for its end. SIGTERM and SIGHUP are handed on; Ctrl-C reaches it anyway.
// Throws FileError where it cannot be started.
[[nodiscard]] ProgramEnd run_captured(const CapturedProgram& program);

}  // namespace allocmark
