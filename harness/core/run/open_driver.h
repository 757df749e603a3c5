// A process that holds the GPU driver open while cells come and go. Where nobody else has it open,
// the driver sets up each GPU again for every cell: a tenth of a second on an H200. The process has
// no context there, so it takes no memory and does no work. In: the devices of cells. Out: nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/job/child_process.h"

namespace allocmark {

class OpenDriver {
 public:
  // Starts `program_path` for the first device that is a GPU; nothing
  // where all are simulated. A process that cannot be started or ends early costs time, not truth:
  // nothing is said of it.
  OpenDriver(const std::vector<std::string>& devices, const std::string& program_path);

 private:
  std::unique_ptr<ChildProcess> child_;  // ends with this object
};

}  // namespace allocmark
