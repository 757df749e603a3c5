// A soak in a process of its own, and the file that its windows go to. A specification flows in;
// windows flow into the file as soon as they are over.
#pragma once

#include <functional>
#include <string>

#include "harness/job/interrupt.h"
#include "harness/tools/run/soak/soak_file.h"

namespace allocmark {

struct SoakPlace {
  std::string program_path;
  std::string path;  // of the file; one that is there is gone on with
  const InterruptGuard* interrupt = nullptr;
};

// Soaks until the time is over, the program fails or the user interrupts. What was there already
// counts. `on_window` is called for each new window. Throws UsageError where the file is of another
// soak.
[[nodiscard]] SoakRecord soak_in_child(const SoakSpec& spec, const SoakPlace& place,
                                       const std::function<void(const SoakRecord&)>& on_window);

}  // namespace allocmark
