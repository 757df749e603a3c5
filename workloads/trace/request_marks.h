// Marks with a meaning of their own, beside the marks that end steps. Some tell of requests to a
// server: a request is known by when it arrived, in ns since the server started, which stands in
// the mark's size column; so whoever follows them needs no table of requests. Others are meetings:
// this rank of a parallel job waits for others here. "collective:NAME" meets all ranks that name it
// too, "send:NAME" goes to the rank with "receive:NAME"; size and stream columns say how many bytes
// move, on which stream. One tells of memory that no allocator serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace allocmark {

enum class MarkClass : std::uint8_t {
  Step,           // any other label: a step boundary
  ServerStart,    // the server is ready; its clock begins here, and the time is 0
  IdleUntil,      // the server has nothing to do until this time
  FirstToken,     // the request that arrived at this time has its first token
  RequestDone,    // the request that arrived at this time is answered
  ManagedMemory,  // the program takes so many bytes more of managed memory (cudaMallocManaged)
  Collective,     // all ranks of a group come together
  Send,           // bytes go to another rank
  Receive,        // and come from one
};

// Whole labels; of meetings what the label begins with.
inline constexpr auto kMarkClassLabels = std::to_array<std::string_view>(
    {"", "server_start", "idle_until", "first_token", "request_done", "managed_memory",
     "collective:", "send:", "receive:"});

[[nodiscard]] constexpr bool is_meeting(MarkClass mark_class) {
  return mark_class >= MarkClass::Collective;
}

[[nodiscard]] constexpr std::string_view mark_label(MarkClass mark_class) {
  return kMarkClassLabels[static_cast<std::size_t>(mark_class)];
}

[[nodiscard]] constexpr MarkClass mark_class_of(std::string_view label) {
  for (std::size_t i = 1; i < kMarkClassLabels.size(); ++i) {
    const auto mark_class = static_cast<MarkClass>(i);
    const std::string_view known = kMarkClassLabels[i];
    if (is_meeting(mark_class) ? label.starts_with(known) && label.size() > known.size()
                               : label == known) {
      return mark_class;
    }
  }
  return MarkClass::Step;
}

// "tensor0" of "collective:tensor0": who meets.
[[nodiscard]] constexpr std::string_view meeting_name(std::string_view label) {
  return label.substr(label.find(':') + 1);
}

}  // namespace allocmark
