// What a driver call does to the host's caches. A call that enters the kernel comes back to a
// program whose data, and with much memory in use whose code, has left the caches, and what the
// program does next takes longer; a simulated call that costs only modelled time would leave them
// warm. In: the cost that a call was charged. Out: caches in the state that the driver leaves.
//
// Measured on hosts of an H200 (Xeon with 48 KiB and 2 MiB, driver 580.159.04, 2026-11-22) by
// walking a warm list after one call. Lists of 16 and 32 KiB had left the first level after
// cudaMalloc and cudaFree of pages, failed requests, mapped or released chunks and cuMemSetAccess
// (98 % of their lines), cuMemUnmap (82 %), cuMemRelease and cuMemCreate (60, 55 %); not after
// cuMemMap, queries, records and requests that a slab or a pool served. What left the second level
// grew with the memory in use: of a list of 1 MiB, cudaMalloc took 50 KiB from an idle device and
// 240 KiB from one with 22 GiB left; cudaFree 30 and 90 KiB. Thirty-two small functions took 16 and
// 70 ns longer. The amounts in host_caches.cc were then chosen so that the tails of caching's and
// thrust_pool's latencies met those of 24 cells on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/simcuda/shim/cost.h"
#include "harness/simcuda/shim/one_of.h"

namespace simcuda {

// Whether a call does its work in the kernel.
[[nodiscard]] constexpr bool displaces_caches(CostId cost) {
  return is_one_of(cost, CostId::Malloc, CostId::MallocFailed, CostId::MallocAsyncChunks,
                   CostId::MemCreate, CostId::MemSetAccess, CostId::Free, CostId::ReleaseChunks,
                   CostId::MemRelease, CostId::MemUnmap);
}

// How much memory such a call reads, as far as the caches can tell.
[[nodiscard]] std::size_t displaced_bytes(CostId cost, std::uint64_t device_used_bytes);

// Whether calls leave the caches alone: for programs of which nobody takes host time, since
// emptying caches may take most of theirs.
void leave_host_caches_warm(bool leaves);

// Per thread: when a call last emptied the caches.
struct HostCaches {
  std::uint64_t emptied_ticks = 0;

  // Reads `bytes` that the caches do not hold, and code in proportion. Of calls in a row only the
  // first reads so much. Takes up to 300 us of real time, which no clock of the simulation counts.
  void displace(std::size_t bytes);
};

}  // namespace simcuda
