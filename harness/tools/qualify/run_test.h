// The child side of child.h: a specification flows in, the test is run, its answer flows out.
#pragma once

#include "harness/tools/qualify/result.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {

// Runs a test or helper by name, on the GPU and with the CUDA runtime that it asks for. An
// environment that is not as it must be becomes the answer's failure. Throws UsageError for a name
// that is not known.
[[nodiscard]] TestAnswer run_test(const TestSpec& spec);

}  // namespace allocmark::qualify
