// The tests' entry points, for registry.cc; each is in a file of its name.
#pragma once

#include "harness/tools/qualify/result.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {

[[nodiscard]] TestAnswer run_preconditions(const TestContext& context);
[[nodiscard]] TestAnswer run_capacity(const TestContext& context);
[[nodiscard]] TestAnswer run_latency(const TestContext& context);
[[nodiscard]] TestAnswer run_threads(const TestContext& context);
[[nodiscard]] TestAnswer run_processes(const TestContext& context);
[[nodiscard]] TestAnswer run_gpus(const TestContext& context);
[[nodiscard]] TestAnswer run_integrity(const TestContext& context);
[[nodiscard]] TestAnswer run_recovery(const TestContext& context);
[[nodiscard]] TestAnswer run_leaks(const TestContext& context);
[[nodiscard]] TestAnswer run_health(const TestContext& context);

// Helpers: what the GPUs are; what happens to them meanwhile (never returns); one of several
// processes that allocate at the same time.
[[nodiscard]] TestAnswer run_devices(const TestContext& context);
[[nodiscard]] TestAnswer run_pairs_worker(const TestContext& context);

}  // namespace allocmark::qualify
