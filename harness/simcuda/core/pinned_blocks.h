// What the driver takes of the host for blocks of cudaHostAlloc and cudaMallocHost: blocks of at
// most 2 MiB are cut from slabs of 2 MiB in steps of 512 bytes, as cudaMalloc cuts them; longer
// ones take whole pages of 4 KiB. A slab goes with its last block. Measured on an H200
// (results/published/2026-11-27-h200-pinned); which hole is taken is cudaMalloc's rule. Requests
// flow in, memory that is to be pinned and unpinned flows out. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "harness/simcuda/core/free_blocks.h"
#include "harness/simcuda/core/units.h"

namespace simcuda {

class PinnedBlocks {
 public:
  // What has to be pinned before place(); 0 where a slab has room. `size_bytes` above 0.
  [[nodiscard]] std::uint64_t missing_bytes(std::uint64_t size_bytes) const;
  // Where the block is. `pinned`: address of the missing bytes; unused where none are missing.
  [[nodiscard]] std::uint64_t place(std::uint64_t size_bytes, std::uint64_t pinned);
  // Forgets the block that begins there. What is to be unpinned; empty where the slab stays.
  [[nodiscard]] Range remove(std::uint64_t address);

 private:
  // Nobody asks since when a hole is free.
  static constexpr std::uint64_t kNoMarker = 0;

  std::map<std::uint64_t, std::uint64_t> live_;  // bytes that a block takes, by address
  std::set<std::uint64_t> slabs_;                // addresses
  FreeBlocks holes_;                             // of slabs
};

}  // namespace simcuda
