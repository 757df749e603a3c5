// Which CUDA calls ask for device memory, and how many of them a thread made.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace allocmark {

// Whether the CUDA function of this name gives device memory, or says how much is left, by which an
// allocator may know that there is none.
[[nodiscard]] bool asks_for_memory(std::string_view function);

// Calls that the simulated runtime had of the calling thread so far.
struct ThreadCalls {
  std::uint64_t all = 0;
  std::uint64_t for_memory = 0;
};
// Nothing where the CUDA runtime is a GPU's.
[[nodiscard]] std::optional<ThreadCalls> simulated_calls_of_thread();

}  // namespace allocmark
