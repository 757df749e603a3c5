// What a program pins where a stream-ordered pool of the driver serves it: cudaMemPoolCreate with a
// location of the host, as CCCL's pinned_memory_pool and cudaMallocFromPoolAsync by hand use it.
// How a driver takes host memory for a pool was not measured: the simulated device's pools stand
// for it, in chunks of 32 MiB. Programs flow in; bytes, calls and times flow out.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/core/pinned/host_replay.h"
#include "harness/core/pinned/pinned_program.h"

namespace allocmark {

// The pool keeps `release_threshold_bytes` of free memory at a wait; 0 is the driver's default. A
// request waits for its own stream, and a free comes after the copies of its block. Calls are those
// in which the pool took or gave back memory; each chunk takes what cudaHostAlloc or cudaFreeHost
// takes for as much. Nothing for a program that asks for more than 16 TiB at once.
[[nodiscard]] std::optional<PinnedUse> replay_pool(const PinnedProgram& program,
                                                   std::uint64_t release_threshold_bytes);

}  // namespace allocmark
