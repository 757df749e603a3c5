// What a process alone holds of the host's memory. A file of the system flows in; bytes flow out.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace allocmark {

// Memory that the process alone holds; 0 where the system does not tell.
[[nodiscard]] std::uint64_t own_memory_bytes(pid_t pid);

}  // namespace allocmark
