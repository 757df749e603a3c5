// What 'run' and 'advise' would say of the settings that 'why' names, and of allocators that are
// not PyTorch's: failures and modelled time in CUDA calls on the simulated H200. A Why flows in and
// out.
#pragma once

#include <cstdint>
#include <string>

#include "harness/tools/why/why.h"

namespace allocmark {

// A history with more entries is not simulated; a note says so.
inline constexpr std::uint64_t kSimulatedEntriesMax = 2'000'000;

// In processes of their own, started from `program_path`. Ranks the settings anew.
void simulate_settings(Why* why, const std::string& program_path, std::uint32_t process_count);

}  // namespace allocmark
