// What a process holds of the host's memory, and what is left, as Linux tells it.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace allocmark {

struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t shared_bytes = 0;  // of those: with files and other processes
};

// All 0 where the system does not say.
[[nodiscard]] ProcessMemory process_memory(pid_t pid);

// What programs can still take: of the machine, or of the container's limit where that is less. 0
// where the system does not tell.
[[nodiscard]] std::uint64_t available_memory_bytes();

// Of that, what a program may pin without ending the machine: pinned memory is never paged out.
[[nodiscard]] inline std::uint64_t pinnable_memory_bytes() {
  return available_memory_bytes() / 8 * 7;
}

}  // namespace allocmark
