#include "workloads/import/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace allocmark {

std::string_view to_string(SnapshotAction action) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "alloc",        "free_requested", "free_completed", "segment_alloc",
      "segment_free", "segment_map",    "segment_unmap",  "snapshot",
      "oom",          "annotate",       "unknown"};
  return kNames[static_cast<std::size_t>(action)];
}

std::uint64_t MemorySnapshot::entry_count(std::size_t device) const {
  std::uint64_t count = 0;
  if (device >= traces.size()) return 0;
  for (const SnapshotRange& range : traces[device]) count += range.count;
  return count;
}

std::size_t MemorySnapshot::busiest_device() const {
  std::size_t busiest = 0;
  for (std::size_t device = 1; device < traces.size(); ++device) {
    if (entry_count(device) > entry_count(busiest)) busiest = device;
  }
  return busiest;
}

void throw_without_history(const MemorySnapshot& snapshot) {
  throw UsageError(
      {.what = "a memory snapshot without history: it shows what was held, not what was asked",
       .where = snapshot.path,
       .wanted = "entries in device_traces",
       .got = fmt::format("{} segments and no entry", snapshot.segments.size()),
       .next = "call torch.cuda.memory._record_memory_history(max_entries=1000000) before the "
               "program's first CUDA tensor, then dump again"});
}

}  // namespace allocmark
