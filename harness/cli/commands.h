// What commands share with each other. A command that shares nothing needs registry.h alone.
#pragma once

#include "harness/cli/parse.h"
#include "harness/cli/registry.h"

namespace allocmark {

// What 'run' does, and the part of it that --ab asks for.
[[nodiscard]] ExitCode run_command(const RunCommand& command);
[[nodiscard]] ExitCode ab_command(const RunCommand& command);
// The part of 'parity' that --live asks for.
[[nodiscard]] ExitCode live_command(const ParityCommand& command);

// The hidden command "cell PARENT_PID [--describe-device DEVICE]": what 'run' starts for every
// cell.
[[nodiscard]] ExitCode cell_command(int argc, char** argv);

}  // namespace allocmark
