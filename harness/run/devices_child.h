// This program once more, as a process that drives several devices. A specification flows in on
// stdin; what it wrote to fd 3 flows out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace allocmark {

struct DevicesChild {
  std::string program_path;
  std::string device;            // the first; simulated ones are made as many as wanted
  std::size_t device_count = 1;  // what the process sees of simulated devices
  std::string mode;              // the option of 'allocmark cell': "--ranks"
  std::string_view what;         // as messages call it: "the ranks"
};

// Waits for its end. Throws what it said as rethrow() does, and CellsError where a signal ended it.
[[nodiscard]] std::string ask_devices_child(const DevicesChild& child, const std::string& input);

}  // namespace allocmark
