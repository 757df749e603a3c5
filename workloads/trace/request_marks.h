// Marks that tell of requests to a server, beside the marks that end steps. A request is known by
// when it arrived, in ns since the server started, which stands in the mark's size column; so
// whoever follows them needs no table of requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace allocmark {

enum class MarkClass : std::uint8_t {
  Step,         // any other label: a step boundary
  ServerStart,  // the server is ready; its clock begins here, and the time is 0
  IdleUntil,    // the server has nothing to do until this time
  FirstToken,   // the request that arrived at this time has its first token
  RequestDone,  // the request that arrived at this time is answered
};

inline constexpr std::array<std::string_view, 5> kMarkClassLabels = {
    "", "server_start", "idle_until", "first_token", "request_done"};

[[nodiscard]] constexpr std::string_view mark_label(MarkClass mark_class) {
  return kMarkClassLabels[static_cast<std::size_t>(mark_class)];
}

[[nodiscard]] constexpr MarkClass mark_class_of(std::string_view label) {
  for (std::size_t i = 1; i < kMarkClassLabels.size(); ++i) {
    if (label == kMarkClassLabels[i]) return static_cast<MarkClass>(i);
  }
  return MarkClass::Step;
}

}  // namespace allocmark
