// What to do about memory of the host that could not be pinned; see remedies.h.
#include <fmt/format.h>

#include "harness/tools/why/message/remedies.h"

namespace allocmark::message {
namespace {

// Where the buffers' sizes are not told, a person knows them.
std::string pinned_sizes(const Message& message) {
  const auto& asked = message.of(Quantity::Asked);
  return asked ? fmt::format("{}B", asked->bytes) : "SIZE...";
}

}  // namespace

Remedy for_pinning(const Message& message) {
  Remedy remedy;
  const bool is_pytorch = message.names_pytorch;
  if (is_pytorch) {
    remedy.changes.push_back(fmt::format(
        "PyTorch pins a power of two for each request, so 20.4 GiB take 32. 'allocmark pinned {}' "
        "says what is pinned, by release, and which key stops the rounding (2.13 or later).",
        pinned_sizes(message)));
  }
  remedy.changes.push_back(
      "Pin less or in more pieces: half of the host's memory at most, each piece below 512 GiB, "
      "which one call does not pin. In a container its limit counts; on Windows pinned "
      "memory counts against the card too.");
  remedy.changes.push_back(is_pytorch
                               ? "Or do without: pin_memory=False, or a smaller cache on the host."
                               : "Or do without pinned memory, or with smaller buffers of it.");
  remedy.record_title = "To see what the host has, and what is pinned, before the job asks:";
  remedy.record = {"grep -E 'MemAvailable|Unevictable' /proc/meminfo",
                   "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current",
                   "allocmark pinned " + pinned_sizes(message)};
  remedy.last_line = "To set: nothing for the card; ask the host for less, or for exact blocks.";
  return remedy;
}

}  // namespace allocmark::message
