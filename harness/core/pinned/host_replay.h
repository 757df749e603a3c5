// What a program pins under one way of pinning: PyTorch's cache of a release with its settings, or
// each request exactly. Programs flow in; bytes, calls and times flow out. Checks no memory: a
// machine that counts serves.
#pragma once

#include <cstdint>

#include "allocators/caching/settings.h"
#include "allocators/host_caching/host_driver.h"
#include "harness/core/pinned/pinned_program.h"

namespace allocmark {

struct PinnedUse {
  std::uint64_t pinned_bytes_peak = 0;  // blocks in use and free, and the reserved segment
  std::uint64_t pin_count = 0;          // calls that pin memory
  std::uint64_t unpin_count = 0;        // calls before the program's end that give it back
  std::uint64_t pinning_ns = 0;         // in both, as simcuda charges it

  friend bool operator==(const PinnedUse&, const PinnedUse&) = default;
};

// PyTorch's cache, decision for decision.
[[nodiscard]] PinnedUse replay_cached(const PinnedProgram& program,
                                      const caching::Settings& settings);

// Each request is pinned by itself: by cudaHostAlloc or cudaMallocHost
// (harness/simcuda/core/pinned_blocks.h), or in whole pages by mmap and cudaHostRegister; a free
// waits for the copies of its block, and unpins.
[[nodiscard]] PinnedUse replay_exact(const PinnedProgram& program, host_caching::PinKind kind);

// CuPy's PinnedMemoryPool (allocators/pinned/cupy_blocks.h); nothing goes back.
[[nodiscard]] PinnedUse replay_cupy(const PinnedProgram& program);

}  // namespace allocmark
