// One function per subcommand, each in a file of its own name. Each prints its answer to stdout and
// returns the exit code; problems are thrown as Error.
#pragma once

#include "base/error.h"
#include "harness/cli/parse.h"

namespace allocmark {

[[nodiscard]] ExitCode list_command(const ListCommand& command);
[[nodiscard]] ExitCode run_command(const RunCommand& command);
// The part of 'run' that --ab asks for.
[[nodiscard]] ExitCode ab_command(const RunCommand& command);
[[nodiscard]] ExitCode trace_command(const TraceCommand& command);
[[nodiscard]] ExitCode explain_command(const ExplainCommand& command);
[[nodiscard]] ExitCode report_command(const ReportCommand& command);
[[nodiscard]] ExitCode bundle_command(const BundleCommand& command);
[[nodiscard]] ExitCode check_command(const CheckCommand& command);
[[nodiscard]] ExitCode compare_command(const CompareCommand& command);
[[nodiscard]] ExitCode parity_command(const ParityCommand& command);
[[nodiscard]] ExitCode speed_command(const SpeedCommand& command);
[[nodiscard]] ExitCode qualify_command(const QualifyCommand& command);
[[nodiscard]] ExitCode profile_command(const ProfileCommand& command);
[[nodiscard]] ExitCode fidelity_command(const FidelityCommand& command);

// The part of 'parity' that --live asks for.
[[nodiscard]] ExitCode live_command(const ParityCommand& command);

// The hidden command "cell PARENT_PID [--describe-device DEVICE]": what 'run' starts for every
// cell.
[[nodiscard]] ExitCode cell_command(int argc, char** argv);

}  // namespace allocmark
