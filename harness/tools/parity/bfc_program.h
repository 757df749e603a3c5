// Random operations on two heaps in step: bfc::Heap, and TensorFlow's or XLA's own allocator. After
// each operation the place, the size, the number of the block and every counter must be equal, and
// in the end what both asked of the device. Checks; times nothing.
#pragma once

#include <cstdint>
#include <string>

#include "allocators/bfc/heap.h"

namespace allocmark {

struct BfcProgram {
  std::uint64_t seed = 1;
  std::uint64_t operation_count = 0;
  std::string rules;  // "tf2.21" or "xla-2026-09"
};

// How it went, up to the first difference.
struct BfcLiveResult {
  std::string options;                // of the heaps, in words
  std::uint64_t operation_count = 0;  // compared
  std::uint64_t block_count = 0;      // requests that got one
  std::uint64_t refusal_count = 0;
  std::uint64_t region_count = 0;     // taken from the device
  std::uint64_t collected_count = 0;  // regions given back for a request
  std::uint64_t counter_count = 0;    // values compared
  std::uint64_t chunk_count = 0;      // of the allocators' own maps of all chunks
  bool has_ended = false;             // at an operation where the original ends the process
  std::string operation;              // the one that differs; empty where none does
  std::string theirs;
  std::string ours;
};

// The options of a program's heaps, from its seed.
[[nodiscard]] bfc::HeapOptions bfc_options(const BfcProgram& program);

// Loads the plugin, whose allocator lives as long as the comparison.
[[nodiscard]] BfcLiveResult compare_bfc(const BfcProgram& program, const std::string& plugin_path);

}  // namespace allocmark
