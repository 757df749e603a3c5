// See process_memory.h.
#include "base/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>

namespace allocmark {

ProcessMemory process_memory(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  if (!(file >> total >> resident >> shared)) return {};
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {.resident_bytes = resident * page_bytes, .shared_bytes = shared * page_bytes};
}

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

}  // namespace allocmark
