// What the driver takes of the host for blocks of cudaHostAlloc and cudaMallocHost: blocks of at
// most 2 MiB are cut from slabs of 2 MiB in steps of 512 bytes, as cudaMalloc cuts them; longer
// ones take whole pages of 4 KiB. Measured on an H200 (results/published/2026-11-27-h200-pinned);
// that a slab goes with its last block, and which hole is taken, is cudaMalloc's rule. Requests
// flow in, calls that pin and unpin flow out.
#pragma once

#include <cstdint>
#include <map>

#include "harness/core/pinned/pin_costs.h"

namespace allocmark {

class DriverBlocks {
 public:
  explicit DriverBlocks(TimedHost& host) : host_(host) {}

  // `size_bytes` above 0. The address is free()'s; 0 where the host has no more.
  [[nodiscard]] host_caching::Address allocate(std::uint64_t size_bytes);
  void free(host_caching::Address address);

 private:
  struct Piece {
    std::uint64_t size_bytes = 0;
    host_caching::Address slab = 0;  // 0: a long block, pinned by itself
    bool is_free = false;
  };
  using Pieces = std::map<host_caching::Address, Piece>;
  // Joins a free piece with the one behind it, where that is free and of the same slab.
  void join(Pieces::iterator piece);
  void forget_free(Pieces::iterator piece);

  TimedHost& host_;
  Pieces pieces_;
  std::multimap<std::uint64_t, host_caching::Address> free_;  // by size
};

}  // namespace allocmark
