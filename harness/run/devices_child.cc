// See devices_child.h.
#include "harness/run/devices_child.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/job/child_process.h"

namespace allocmark {

std::string ask_devices_child(const DevicesChild& child, const std::string& input) {
  std::vector<std::pair<std::string, std::string>> changes =
      runtime_environment(child.device, child.program_path);
  changes.emplace_back("SIMCUDA_DEVICES", std::to_string(child.device_count));
  ChildOutcome outcome = run_child(
      {.argv = {child.program_path, "cell", std::to_string(getpid()), child.mode, child.device},
       .environment = environment_with(changes),
       .input = input});
  if (outcome.exit_code == 0 && !outcome.result.empty()) return std::move(outcome.result);
  if (outcome.signal_number != 0) throw CellsError(error_of(outcome, child.what));
  rethrow(outcome, child.what);
}

}  // namespace allocmark
