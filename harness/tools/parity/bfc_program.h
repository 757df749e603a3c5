// Random operations on two heaps in step: bfc::Heap, and TensorFlow's or XLA's own allocator. After
// each operation the place, the size, the number of the block and every counter must be equal, and
// in the end what both asked of the device. Checks; times nothing.
#pragma once

#include <string>

#include "allocators/bfc/heap.h"
#include "harness/tools/parity/pair_program.h"

namespace allocmark {

// The options of a program's heaps, from its seed.
[[nodiscard]] bfc::HeapOptions bfc_options(const PairProgram& program);

// Loads the plugin, whose allocator lives as long as the comparison.
[[nodiscard]] PairResult compare_bfc(const PairProgram& program, const std::string& plugin_path);

}  // namespace allocmark
