// Cells that run at the same time on one GPU share its memory: what holds for them, and which
// cannot. Simulated GPUs are a process's own.
#pragma once

#include <cstdint>
#include <span>

#include "results/schema.h"

namespace allocmark {

// Whether another process can be at work on the cell's GPU. Not where a limit is made by holding
// memory back: each would take what the other holds for memory in use.
[[nodiscard]] bool can_share_device(const CellKey& key);

// Whether it has company there: what the device has in use is then not the cell's alone.
[[nodiscard]] bool shares_device(const CellKey& key, std::uint32_t job_count);

// Throws UsageError where so many cells at a time cannot run.
void require_shareable(std::span<const CellKey> cells, std::uint32_t job_count);

}  // namespace allocmark
