// The simulated H200 as the device of a golden replay: it chooses every address by itself, so that
// placement policy and allocator are tested together. Starts as the program did that the goldens
// were recorded with: one kernel loaded, seven streams made. Checks; times nothing.
#pragma once

#include <memory>

#include "harness/tools/parity/parity.h"

namespace allocmark {

[[nodiscard]] std::unique_ptr<caching::ParityDevice> make_parity_device();

}  // namespace allocmark
