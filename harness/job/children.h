// Several child processes at a time. Commands flow in, outcomes flow out as they come.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "harness/job/child_process.h"

namespace allocmark {

// Starts each and waits for its end, at most `at_once` at a time; `on_end` gets each one's place
// among `commands` and how it ended, `meanwhile` is called every now and then. One that cannot even
// be killed, because it is stuck in the driver, is left behind.
void run_children(
    const std::vector<ChildCommand>& commands, std::size_t at_once,
    const std::function<void(std::size_t, const ChildOutcome&)>& on_end,
    const std::function<void()>& meanwhile = [] {});

}  // namespace allocmark
