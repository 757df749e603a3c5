// What a log puts before each line: times, levels, ranks, hosts, marks of quotes and diffs. A line
// flows in, how much of it is the log's flows out.
#pragma once

#include <cstddef>
#include <string_view>

namespace allocmark::message {

// Bytes at the head of a line that a log put there: times, levels, "[rank3]:", "(pid=7)", "#", ">".
// What may be text as well, "+ " or "node7: ", counts where the line before or behind has it too.
[[nodiscard]] std::size_t log_prefix(std::string_view line, std::string_view before,
                                     std::string_view behind);

// Past "[31m", which a page leaves of a terminal's colour; 0 where the text does not begin so.
[[nodiscard]] std::size_t colour(std::string_view text);

}  // namespace allocmark::message
