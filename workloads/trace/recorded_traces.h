// Which traces are recordings, by what their header says of who made them.
#pragma once

#include <string_view>

namespace allocmark {

// TraceHeader::generator of what came from an allocator's log. A log says nothing of how its
// program ended: its last failed request is one like the others (workloads/TRACES.md).
inline constexpr std::string_view kLogGenerator = "logged";

[[nodiscard]] constexpr bool is_recording(std::string_view generator) {
  return generator == "recorded" || generator == kLogGenerator;
}

}  // namespace allocmark
