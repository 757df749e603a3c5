// What the host takes to pin memory and to let it go, by call and size. simcuda charges it, and
// `allocmark pinned` adds it up. Measured on hosts of H200s
// (results/published/2026-11-27-h200-pinned, "What simcuda charges").
#pragma once

#include <cstdint>

namespace simcuda {

enum class PinCall : std::uint8_t {
  Allocate,         // cudaMallocHost, cudaHostAlloc; up to 2 MiB a share of a slab of 2 MiB
  Free,             // cudaFreeHost, likewise
  Register,         // cudaHostRegister of pages that nobody touched
  RegisterTouched,  // of pages that the process has
  Unregister,       // cudaHostUnregister
  TakeChunk,        // each chunk of 32 MiB that a host's pool takes for a request of that size
  ReturnChunk,      // each chunk that it gives back with others of that size together
};

// Nanoseconds of one call.
[[nodiscard]] std::uint64_t pinning_ns(PinCall call, std::uint64_t size_bytes);

}  // namespace simcuda
