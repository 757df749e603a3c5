// What a process holds of the host's memory, as Linux tells it.
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

}  // namespace allocmark
