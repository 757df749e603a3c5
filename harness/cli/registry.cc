// See registry.h.
#include "harness/cli/registry.h"

#include "harness/cli/commands.h"

namespace allocmark {

std::span<const CommandEntry> command_registry() {
  static constexpr CommandEntry kCommands[] = {
      {"run", "Run workloads against allocators and compare", add_run_command},
      {"list", "List workloads, allocators, scenarios, devices and suites", add_list_command},
      {"explain", "Say what a config string means", add_explain_command},
      {"report", "Make the report of a results folder (again)", add_report_command},
      {"compare", "Say whether one run is better or worse than another", add_compare_command},
      {"bundle", "Pack a run, its report and its hashes for publishing", add_bundle_command},
      {"check", "Say whether a bundle can be relied on", add_check_command},
      {"qualify", "Say whether this machine's GPUs are fit", add_qualify_command},
      {"trace", "Look at, check, convert and generate traces", add_trace_command},
      {"profile", "Measure a device's memory calls, for a simulated device of its own",
       add_profile_command},
      {"fidelity", "Say how much a generated workload is like a recorded one",
       add_fidelity_command},
      {"parity", "Compare the caching allocator with PyTorch's recorded answers",
       add_parity_command},
      {"speed", "Measure allocmark itself: overhead per event, replay rate, memory",
       add_speed_command},
  };
  return kCommands;
}

}  // namespace allocmark
