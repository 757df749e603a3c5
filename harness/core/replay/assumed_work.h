// What is assumed of the device where a recording tells nothing of its work. A pool of the driver
// decides by what is in flight: on an idle device it fails where a program's own kernels would have
// let it serve, and the other way round. So its failures and its memory are judged with work in
// flight, and its failures on an idle device beside that. Times are those of an idle device.
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/core/replay/prepared_trace.h"

namespace allocmark {

// Length of the kernel that follows every request on its stream, so that the device is behind its
// program wherever nobody waits for it. On a simulated device the driver's own time is nothing
// beside it, and a replay repeats itself.
inline constexpr std::uint64_t kAssumedKernelNsSimulated = 1'000'000'000;
inline constexpr std::uint64_t kAssumedKernelNs = 100'000;
// Recordings with more requests are judged idle on a GPU: ten seconds are enough for a pass.
inline constexpr std::uint64_t kBusyRequestCountMax = 100'000;

// That length for a setting that uses the driver's pools on a recording without kernels, unless the
// workload's text says itself which kernels it has; else 0.
[[nodiscard]] std::uint64_t assumed_kernel_ns(const PreparedTrace& trace, std::string_view workload,
                                              std::string_view allocator, std::string_view conf);

}  // namespace allocmark
