// See host_memory.h.
#include "harness/core/device/host_memory.h"

#include <algorithm>

#include "base/process_memory.h"

namespace allocmark {

std::uint64_t own_memory_bytes(pid_t pid) {
  const ProcessMemory memory = process_memory(pid);
  return memory.resident_bytes - std::min(memory.shared_bytes, memory.resident_bytes);
}

}  // namespace allocmark
