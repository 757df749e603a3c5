// Which simulated devices reach each other's memory. In:
// device numbers, SIMCUDA_PEERS. Out: what CUDA's peer functions answer.
#pragma once

namespace simcuda {

// Reads SIMCUDA_PEERS: 0 for machines whose GPUs cannot reach each other. Throws
// std::runtime_error where it is neither 0 nor 1.
void read_peers();
// Whether `device` may be given access to memory of `peer`; never to its own.
[[nodiscard]] bool can_be_peers(int device, int peer);

}  // namespace simcuda
