// How long bytes take from one GPU to another where nobody measured it: 10 us to start and 400
// GB/s, the order of magnitude of NVLink. Kernel events of generated workloads, simulated copies
// between devices and meetings of ranks all take this time.
#pragma once

#include <cstdint>

namespace allocmark {

[[nodiscard]] constexpr std::uint64_t link_ns(std::uint64_t size_bytes) {
  return 10'000 + size_bytes / 400;
}

}  // namespace allocmark
