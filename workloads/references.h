// The recordings that ship, each with the workload that is its like: what 'allocmark fidelity
// --all' compares and what the tests hold the generators to, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace allocmark {

// How frees are compared.
enum class FreeRows : std::uint8_t {
  None,          // not: autocast's cache goes in an order of pointers
  NoWorkspaces,  // neither frees nor large workspaces
  Sizes,         // blocks of one size may go in another order
  Blocks,
};

struct Reference {
  std::string_view recording;
  std::string_view workload;  // generates the same requests
  // Rows (allocs, and frees where they are compared) from the start that the generated trace has to
  // have in the recorded order, and how many of the recorded ones it may lack.
  std::size_t row_count = 0;
  std::size_t missing_max = 0;
  FreeRows frees = FreeRows::Blocks;
  std::string_view summary = {};  // one line: what was recorded
};

[[nodiscard]] std::span<const Reference> references();

// Throws UsageError with the nearest names where the recording has no workload.
[[nodiscard]] const Reference& find_reference(std::string_view recording);

}  // namespace allocmark
