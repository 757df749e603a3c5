// What programs asked for that simcuda lacks: functions without a definition, and kinds of memory,
// kernels and pools that it refuses. In: names, as such calls come. Out: counts, and from where the
// first call of each came.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "harness/simcuda/shim/call.h"

namespace simcuda {

struct Gap {
  std::uint64_t call_count = 0;
  std::string first_place;  // "/path/program+0x11d3 in main", for addr2line
};
using Gaps = std::map<std::string, Gap, std::less<>>;
// Calls of all of them, and their names with commas between.
[[nodiscard]] std::uint64_t call_count_of(const Gaps& gaps);
[[nodiscard]] std::string names_of(const Gaps& gaps);

// Gaps that are kernels begin like this; the kernel's name follows.
inline constexpr const char* kKernelGap = "kernel ";

void note_gap(const std::string& name);
[[nodiscard]] Gaps all_gaps();

// Notes the gap, and answers "not supported" with that message.
[[nodiscard]] cudaError_t lack(ThreadState& thread, const std::string& name, std::string message);

}  // namespace simcuda
