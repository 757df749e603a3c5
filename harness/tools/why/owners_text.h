// Who held the memory, in words and as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

#include "harness/tools/why/owners.h"

namespace allocmark {

// A table of owners, then the largest stacks and modules, or sizes where there are no stacks.
// `rounded_bytes`: what the allocator counts as live; 0 where it is not known.
[[nodiscard]] std::string owners_text(const Owners& owners, std::uint64_t rounded_bytes);
[[nodiscard]] std::string owners_markdown(const Owners& owners, std::uint64_t rounded_bytes);
// "activations (520 MiB) and optimizer state (302 MiB)"; empty where no stack tells it.
[[nodiscard]] std::string most_held(const Owners& owners);

[[nodiscard]] nlohmann::ordered_json owners_json(const Owners& owners, std::uint64_t rounded_bytes);
// For the page: frames by bytes, and bytes by owner over time.
[[nodiscard]] nlohmann::ordered_json owners_page_json(const Owners& owners,
                                                      std::uint64_t rounded_bytes);

}  // namespace allocmark
