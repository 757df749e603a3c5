// The same in a process of its own, which has the CUDA runtime that the device needs, and what
// people and programs read of it.
#pragma once

#include <string>
#include <vector>

#include "harness/tools/threads/threads.h"

namespace allocmark {

// One JSON document: {"kind": "threads", "rows": [...]}; README.md of this folder names the keys.
[[nodiscard]] std::string to_json(const std::vector<ThreadsRow>& rows);

// Starts this program again, with simcuda in front where the device is simulated. What the child
// throws is thrown here.
[[nodiscard]] std::vector<ThreadsRow> run_threads_in_child(const ThreadsSpec& spec,
                                                           const std::string& device);

// A line per number of threads.
[[nodiscard]] std::string render_threads(const ThreadsSpec& spec,
                                         const std::vector<ThreadsRow>& rows);

}  // namespace allocmark
