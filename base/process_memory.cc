// See process_memory.h.
#include "base/process_memory.h"

#include <unistd.h>

#include <fstream>

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

}  // namespace allocmark
