// The causes of an OOM. harness/core/check/oom_cause.h has the rule that finds a request's cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace allocmark {

// Why a request failed (results/FAILURES.md, "OOM causes"). The order is that of stored counts:
// a new cause goes to the end, and has its row in oom_causes.cc.
enum class OomCause : std::uint8_t {
  Capacity,
  Rounding,
  Stranded,
  Fragmentation,
  Unknown,
  Pending,
  Limit,
  OtherProcess,
  Refused,
  HostLost
};
inline constexpr std::size_t kOomCauseCount = 10;

// As results have it: "capacity", "rounding", ...
[[nodiscard]] std::string_view to_string(OomCause cause);
[[nodiscard]] std::optional<OomCause> parse_oom_cause(std::string_view text);

// As headings and legends have it: "kept for other streams".
[[nodiscard]] std::string_view short_words(OomCause cause);

// What follows "runs out of memory": "free memory is fragmented".
[[nodiscard]] std::string_view reason_words(OomCause cause);

}  // namespace allocmark
