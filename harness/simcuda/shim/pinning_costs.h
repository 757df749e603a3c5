// What it takes to pin memory of the host and to let it go, from what a profile has of
// cudaMallocHost and cudaFreeHost. The shares were measured on an H200 (driver 580.159.04,
// 2026-11-27): results/published/2026-11-27-h200-pinned/raw/pool_costs.jsonl, medians by size.
#pragma once

#include <cstdint>

#include "harness/simcuda/core/units.h"
#include "harness/simcuda/shim/call.h"

namespace simcuda {

// In thousandths of cudaMallocHost's and cudaFreeHost's time for 32 MiB.
inline constexpr std::uint64_t kPinTouched = 125;         // 91 to 180 from 8 to 512 MiB
inline constexpr std::uint64_t kUnpinRegistered = 180;    // 154 to 230
inline constexpr std::uint64_t kPoolChunk = 610;          // 486 to 736, a chunk of a pool
inline constexpr std::uint64_t kPoolChunkReturned = 375;  // 330 to 466

// Of `cost` for so many bytes. Above a slab's blocks time grows with the bytes: 0.8 to 1.2 of this
// from 2 to 1024 MiB, where a profile has the row of 32 MiB alone.
inline void charge_pinning(ThreadState& thread, CostId cost, std::uint64_t size_bytes,
                           std::uint64_t thousandths = 1000) {
  if (size_bytes < kPageBytes) {
    thread.charge(cost, size_bytes);
    return;
  }
  const std::uint64_t chunk_thousandths = size_bytes / 1024 * 1000 / (kChunkBytes / 1024);
  thread.charge_part(cost, kChunkBytes, chunk_thousandths * thousandths / 1000);
}

}  // namespace simcuda
