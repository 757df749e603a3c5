// What commands share with each other. A command that shares nothing needs registry.h alone.
#pragma once

#include "harness/cli/parse.h"
#include "harness/cli/registry.h"
#include "harness/run/run_folder.h"

namespace allocmark {

// Says on stderr which files of config strings were replaced while the cells ran: their numbers are
// of two builds. False where none was.
[[nodiscard]] bool say_changed_files(const std::vector<FileMark>& marks);

// What 'run' does, and the part of it that --ab asks for.
[[nodiscard]] ExitCode run_command(const RunCommand& command);
[[nodiscard]] ExitCode ab_command(const RunCommand& command);
// The part of 'parity' that --live asks for.
[[nodiscard]] ExitCode live_command(const ParityCommand& command);

}  // namespace allocmark
