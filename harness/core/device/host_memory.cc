// See host_memory.h.
#include "harness/core/device/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/process_memory.h"

namespace allocmark {

std::uint64_t available_memory_bytes() {
  std::uint64_t bytes = 0;
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (meminfo >> name >> kib) {
    if (name == "MemAvailable:") bytes = kib * 1024;
    std::getline(meminfo, unit);
  }
  // A container's own limit; "max" where it has none.
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream current_file("/sys/fs/cgroup/memory.current");
  std::uint64_t limit = 0;
  std::uint64_t current = 0;
  if (limit_file >> limit && current_file >> current) {
    bytes = std::min(bytes, limit > current ? limit - current : 0);
  }
  return bytes;
}

std::uint64_t own_memory_bytes(pid_t pid) {
  const ProcessMemory memory = process_memory(pid);
  return memory.resident_bytes - std::min(memory.shared_bytes, memory.resident_bytes);
}

}  // namespace allocmark
