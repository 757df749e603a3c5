// What follows from a message's figures by arithmetic alone. A message flows in; an answer and what
// it rests on flow out. Figures are rounded ones, so an answer is given only where it holds for
// every value that is printed so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/tools/why/message/message.h"

namespace allocmark::message {

enum class Cause : std::uint8_t {
  TooBig,                 // free and unallocated together are less than what was asked
  FragmentationPossible,  // together they are enough, the free memory alone is not
  OutsideLimit,           // enough is free: what refused it is not PyTorch's cache
  ProcessLimit,           // a limit that the process set for itself
  AddressSpace,           // of one expandable segment
  Spilled,                // more is allocated than the card has
  Contradiction,          // figures that cannot all be true
  Borderline,             // the printed figures are too coarse
  MissingFigures,         // the text does not say enough
  HostMemory,             // no GPU's memory
  PinnedMemory,           // memory of the host that could not be pinned
  State,                  // a table: nothing failed
};

// Whether another setting of the allocator can help.
enum class Help : std::uint8_t { No, Possible, Unknown };

struct Verdict {
  Cause cause = Cause::MissingFigures;
  Help help = Help::Unknown;
  std::string answer{};                         // one sentence, without its full stop
  std::optional<std::int64_t> must_go_bytes{};  // what is missing; as printed, so rounded
  std::vector<std::string> facts{};             // what else follows, a sentence each
  std::vector<std::string> contradictions{};    // a sentence each
};

[[nodiscard]] Verdict judge(const Message& message);

[[nodiscard]] std::string_view to_string(Cause cause);
[[nodiscard]] std::string_view to_string(Help help);

// What the allocator holds: as said, or allocated and unallocated memory together.
[[nodiscard]] std::optional<Figure> reserved_of(const Message& message);
// Reserved and free in it: as said, or reserved less allocated.
[[nodiscard]] std::optional<Figure> unallocated_of(const Message& message);
// Most that PyTorch could have had: what it holds and what was free.
[[nodiscard]] std::optional<Figure> reachable_of(const Message& message);

// Processes that are not the one that failed. Inside a container the driver's number of a process
// is not its own, so the one that holds about what PyTorch reserved is taken to be it.
[[nodiscard]] std::vector<ProcessFigure> other_processes(const Message& message);

}  // namespace allocmark::message
