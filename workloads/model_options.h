// Reads which model a generator is to run from a workload's text.
#pragma once

#include "workloads/model/shapes.h"
#include "workloads/parameters.h"

namespace allocmark {

// The model of the variant with the dimensions that the text overrides. Throws UsageError where
// heads do not divide what they must.
[[nodiscard]] ModelShape read_model_shape(Parameters& parameters);

}  // namespace allocmark
