// See device_sharing.h.
#include "harness/core/run/device_sharing.h"

#include <fmt/format.h>
#include "base/error.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/capacity.h"

namespace allocmark {

bool can_share_device(const CellKey& key) {
  if (is_simulated(key.device)) return true;
  const Capacity capacity = parse_capacity(key.capacity);
  return capacity.unlimited() || capacity.enforcement == CapacityEnforcement::AllocatorLimit;
}

bool shares_device(const CellKey& key, std::uint32_t job_count) {
  return job_count > 1 && !is_simulated(key.device);
}

void require_shareable(std::span<const CellKey> cells, std::uint32_t job_count) {
  if (job_count <= 1) return;
  for (const CellKey& key : cells) {
    if (can_share_device(key)) continue;
    throw UsageError(
        {.what = "cells cannot share this GPU",
         .where = fmt::format("--jobs {}, --capacity {}, --device {}", job_count, key.capacity,
                              key.device),
         .wanted = "one cell at a time, or a capacity that holds no memory back",
         .got =
             "a capacity that is made by holding memory back, which each cell would see as taken",
         .next = fmt::format("leave --jobs out, or use --capacity {}@limit or unlimited",
                             key.capacity)});
  }
}

}  // namespace allocmark
