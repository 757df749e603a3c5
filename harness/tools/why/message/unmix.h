// Processes that write to one log at once tear each other's messages apart. Where each line says
// whose it is, lines of one process are put together again.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark::message {

struct Unmixed {
  std::string text;                // whole lines
  std::vector<std::size_t> lines;  // for each of them: which of the source it is, 0-based
};

// Lines before and behind the source's byte `mark_bytes` stay there. None where no line moves.
[[nodiscard]] std::optional<Unmixed> unmixed(std::string_view source, std::size_t mark_bytes);

}  // namespace allocmark::message
