// How much memory this host has left, and what a process holds of it. Files of the system flow in;
// bytes flow out.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace allocmark {

// What programs can still take: of the machine, or of the container's limit where that is less. 0
// where the system does not tell.
[[nodiscard]] std::uint64_t available_memory_bytes();

// Memory that the process alone holds; 0 where the system does not tell.
[[nodiscard]] std::uint64_t own_memory_bytes(pid_t pid);

}  // namespace allocmark
