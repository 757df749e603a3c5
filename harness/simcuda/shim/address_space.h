// Where simulated memory finds address space. In: wanted ranges. Out: ranges that nothing else in
// the process uses. Sanitizers keep most of the address space for themselves, and
// ThreadSanitizer ends a program that maps memory there; so a window takes the first of several
// places that is free, each at the same distance from a multiple of 2 TiB. Relative addresses and
// alignments are then the same everywhere.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/simcuda/core/units.h"

namespace simcuda {

// Reserves `wanted`, or the same range moved by a multiple of 2 TiB, or at least `least_bytes` of
// its size anywhere. The result has no access: touching it is a fault. Throws std::runtime_error
// where the system gives none.
[[nodiscard]] Range reserve_window(Range wanted, std::uint64_t least_bytes);

// The same range moved by a multiple of 2 TiB, nearest first, or nothing.
[[nodiscard]] std::optional<Range> reserve_moved(Range wanted);

// The same for `wanted` in its own place alone; false where something lies there.
[[nodiscard]] bool reserve_exactly(Range wanted);

// Readable and writable memory, multiples of 32 MiB, taken from the machine when touched:
// `wanted_bytes`, or as much as can be had from `least_bytes` on; empty where nothing can.
[[nodiscard]] Range map_mirror(std::uint64_t wanted_bytes, std::uint64_t least_bytes);

}  // namespace simcuda
