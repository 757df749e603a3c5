// One function per command for the registry, each in a file of its name. See registry.h.
#pragma once

#include "harness/cli/parse.h"
#include "harness/cli/registry.h"

namespace allocmark {

[[nodiscard]] CommandRun add_run_command(CLI::App* app);
[[nodiscard]] CommandRun add_list_command(CLI::App* app);
[[nodiscard]] CommandRun add_explain_command(CLI::App* app);
[[nodiscard]] CommandRun add_report_command(CLI::App* app);
[[nodiscard]] CommandRun add_compare_command(CLI::App* app);
[[nodiscard]] CommandRun add_bundle_command(CLI::App* app);
[[nodiscard]] CommandRun add_check_command(CLI::App* app);
[[nodiscard]] CommandRun add_qualify_command(CLI::App* app);
[[nodiscard]] CommandRun add_trace_command(CLI::App* app);
[[nodiscard]] CommandRun add_profile_command(CLI::App* app);
[[nodiscard]] CommandRun add_fidelity_command(CLI::App* app);
[[nodiscard]] CommandRun add_parity_command(CLI::App* app);
[[nodiscard]] CommandRun add_speed_command(CLI::App* app);

// What 'run' does, and the part of it that --ab asks for.
[[nodiscard]] ExitCode run_command(const RunCommand& command);
[[nodiscard]] ExitCode ab_command(const RunCommand& command);
// The part of 'parity' that --live asks for.
[[nodiscard]] ExitCode live_command(const ParityCommand& command);

// The hidden command "cell PARENT_PID [--describe-device DEVICE]": what 'run' starts for every
// cell.
[[nodiscard]] ExitCode cell_command(int argc, char** argv);

}  // namespace allocmark
