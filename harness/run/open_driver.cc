// See open_driver.h.
#include "harness/run/open_driver.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"

namespace allocmark {

OpenDriver::OpenDriver(const std::vector<std::string>& devices, const std::string& program_path) {
  const auto gpu = std::ranges::find_if_not(
      devices, [](const std::string& device) { return is_simulated(device); });
  if (gpu == devices.end()) return;
  try {
    child_ = std::make_unique<ChildProcess>(
        ChildCommand{.argv = {program_path, "cell", std::to_string(getpid()), kOpenOption, *gpu},
                     .environment = environment_with({}),
                     .input = {}});
  } catch (const Error&) {
    // The cells will say what is wrong with this machine.
  }
}

}  // namespace allocmark
