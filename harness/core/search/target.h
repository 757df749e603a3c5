// What a server's request P99 is with an allocator that costs nothing, from its trace alone: on
// other cards, and under other loads. Workload texts flow in; latencies flow out. Nothing is timed:
// the clock is the trace's own kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace allocmark {

// "p99=2s", "p99=500ms": ns. Throws UsageError, with `where`.
[[nodiscard]] std::uint64_t parse_target(std::string_view text, const std::string& where);

// Nothing where the workload answers no requests.
[[nodiscard]] std::optional<std::uint64_t> served_p99_ns(const std::string& workload,
                                                         std::uint64_t seed);

// The text of one server with another load; nothing where the text is not of one server.
[[nodiscard]] std::optional<std::string> with_load(const std::string& workload,
                                                   std::uint64_t per_minute);

// The most requests a minute, to 2 %, of which the server keeps the target; 0 where it does not
// keep it with one. Nothing where the text is not of one server.
[[nodiscard]] std::optional<std::uint64_t> largest_load(const std::string& workload,
                                                        std::uint64_t seed,
                                                        std::uint64_t target_ns);

}  // namespace allocmark
