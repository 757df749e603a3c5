#include "workloads/import/memory_snapshot.h"

#include <fmt/format.h>

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

std::size_t MemorySnapshot::main_device() const {
  if (traces.size() < 2) return 0;
  std::size_t found = 0;
  std::pair<bool, std::uint64_t> greatest;  // whether a request failed; entries
  for (std::size_t device = 0; device < traces.size(); ++device) {
    const std::pair rank(failed_on(device), entry_count(device));
    if (rank <= greatest) continue;
    greatest = rank;
    found = device;
  }
  return found;
}

bool MemorySnapshot::failed_on(std::size_t device) const {
  bool failed = false;
  for_each_entry(device, [&failed](const SnapshotEntry& entry) {
    failed |= entry.action == SnapshotAction::Oom;
  });
  return failed;
}

void throw_without_history(const MemorySnapshot& snapshot) {
  throw UsageError(
      {.what = "a memory snapshot without history: it shows what was held, not what was asked",
       .where = snapshot.path,
       .wanted = "entries in device_traces",
       .got = fmt::format("{} segments and no entry", snapshot.segments.size()),
       .next = "call torch.cuda.memory._record_memory_history(max_entries=1000000, "
               "context=\"alloc\") before the program's first CUDA tensor, then dump again"});
}

}  // namespace allocmark
