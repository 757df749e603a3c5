// Charges calls that pin memory of the host and let it go: core/pinning_costs.h says how they grow
// with their size, a profile what cudaMallocHost and cudaFreeHost take for 32 MiB on its host.
#pragma once

#include <cstdint>

#include "harness/simcuda/core/pinning_costs.h"
#include "harness/simcuda/core/units.h"
#include "harness/simcuda/shim/call.h"

namespace simcuda {

[[nodiscard]] constexpr bool unpins(PinCall call) {
  return call == PinCall::Free || call == PinCall::Unregister || call == PinCall::ReturnChunk;
}

// `took_ns`: by the core's costs.
inline void charge_pinning(ThreadState& thread, PinCall call, std::uint64_t took_ns) {
  const bool is_free = unpins(call);
  const std::uint64_t of_ns = pinning_ns(is_free ? PinCall::Free : PinCall::Allocate, kChunkBytes);
  thread.charge_scaled(is_free ? CostId::FreeHost : CostId::MallocHost, kChunkBytes,
                       {.took_ns = took_ns, .of_ns = of_ns});
}

}  // namespace simcuda
