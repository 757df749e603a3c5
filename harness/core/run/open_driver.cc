// See open_driver.h.
#include "harness/core/run/open_driver.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "harness/core/device/runtime_select.h"
#include "harness/job/job.h"

namespace allocmark {

namespace {

void hold_open(const std::string& /*device*/, const Tell<std::string>& /*tell*/) {
  int count = 0;
  (void)cudaGetDeviceCount(&count);  // opens the driver, and makes no context
  while (true) pause();
}

constexpr Job<std::string, std::string> kOpen{
    .name = "open", .what = "the open driver", .run = hold_open, .opens_device = false};

}  // namespace

OpenDriver::OpenDriver(const std::vector<std::string>& devices, const std::string& program_path) {
  const auto gpu = std::ranges::find_if_not(
      devices, [](const std::string& device) { return is_simulated(device); });
  if (gpu == devices.end()) return;
  try {
    child_ = std::make_unique<ChildProcess>(
        command_of(kOpen, {}, {.program_path = program_path, .device = *gpu}));
  } catch (const Error&) {
    // The cells will say what is wrong with this machine.
  }
}

extern const JobEntry kOpenJob;
constinit const JobEntry kOpenJob = job_entry<kOpen>();

}  // namespace allocmark
