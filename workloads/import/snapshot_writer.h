// Writes a memory snapshot as PyTorch does: a pickle that torch.cuda.memory's tools and the viewer
// at pytorch.org/memory_viz open. Protocol 4, the newest that the viewer reads.
#pragma once

#include <string>

#include "workloads/import/memory_snapshot.h"

namespace allocmark {

void write_memory_snapshot(const MemorySnapshot& snapshot, const std::string& path);

}  // namespace allocmark
