// Runs a workload on `caching` and keeps its history as PyTorch's allocator would: every request
// and free, every segment, and what is held at the end. Host only: the device is a card of a given
// size. Checks nothing; times nothing.
#pragma once

#include <cstdint>

#include "allocators/caching/settings.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct RecordRequest {
  caching::Settings settings{};
  std::string conf{};  // as the snapshot shall name it
  std::uint64_t capacity_bytes = std::uint64_t{1} << 40;
  // Entries before this one are left out, as if recording had begun later.
  std::uint64_t first_entry = 0;
};

// Processes and their marks are as in the workload; the trace has one device. A request that fails
// is an `oom` entry, and its block's later free is skipped.
[[nodiscard]] MemorySnapshot record_on_caching(EventSource& source, const RecordRequest& request);

}  // namespace allocmark
