// 'allocmark trace': summary, convert, validate and generate, one call each of
// workloads/trace_tools.h.
#include <algorithm>
#include <cstdio>
#include <string>

#include "harness/cli/commands.h"
#include "workloads/trace_tools.h"

namespace allocmark {

ExitCode trace_command(const TraceCommand& command) {
  int worst = 0;
  for (const std::string& input : command.inputs) {
    int status = 0;
    if (command.action == "summary") {
      status = trace_summary(input, command.seed, stdout);
    } else if (command.action == "validate") {
      status = trace_validate(input, stdout);
    } else {
      status = trace_convert(input, command.output, command.seed, stdout);
    }
    worst = std::max(worst, status);
  }
  return static_cast<ExitCode>(worst);
}

}  // namespace allocmark
