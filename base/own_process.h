// What a process is told and says of itself: its environment, the path of its program, the name of
// the signal that ended one.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace allocmark {

// This process's environment with `changes` applied; an empty value in a change removes nothing, it
// sets "".
[[nodiscard]] std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& changes);

// "SIGSEGV (Segmentation fault)".
[[nodiscard]] std::string signal_name(int signal_number);

// A program by its name, in the folders that PATH names; empty where there is none.
[[nodiscard]] std::string find_program(const std::string& name);

// The path of the running program.
[[nodiscard]] std::string own_program_path();

}  // namespace allocmark
