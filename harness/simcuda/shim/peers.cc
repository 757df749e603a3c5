// Peer access: who may reach whose memory, and since when. Copies need no access (CUDA stages them
// then), and are in memory_copy.cc.
#include "harness/simcuda/shim/peers.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/contexts.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct Peers {
  bool reach_each_other = true;
  // By device and peer. A device's access is that of its context, and so of all threads.
  std::array<std::array<std::atomic<bool>, kDeviceCountMax>, kDeviceCountMax> enabled{};
};
Peers& peers() { return made_once<Peers>(); }

std::atomic<bool>& access_of(const ThreadState& thread, int peer) {
  return peers().enabled[static_cast<std::size_t>(thread.device)][static_cast<std::size_t>(peer)];
}

cudaError_t enable(ThreadState& thread, int peer, unsigned flags) {
  if (flags != 0) return cudaErrorInvalidValue;
  if (device_at(peer) == nullptr || !can_be_peers(thread.device, peer)) {
    return cudaErrorInvalidDevice;
  }
  return access_of(thread, peer).exchange(true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
}

cudaError_t disable(ThreadState& thread, int peer) {
  if (device_at(peer) == nullptr) return cudaErrorInvalidDevice;
  return access_of(thread, peer).exchange(false) ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
}

cudaError_t attribute(ThreadState& thread, int* value, cudaDeviceP2PAttr wanted, int from, int to) {
  thread.charge(CostId::DeviceGetAttribute);
  if (value == nullptr) return cudaErrorInvalidValue;
  if (device_at(from) == nullptr || device_at(to) == nullptr || from == to) {
    return cudaErrorInvalidDevice;
  }
  switch (wanted) {
    case cudaDevP2PAttrPerformanceRank:
      *value = 0;  // all links are alike
      return cudaSuccess;
    case cudaDevP2PAttrAccessSupported:
    case cudaDevP2PAttrNativeAtomicSupported:
      *value = can_be_peers(from, to) ? 1 : 0;
      return cudaSuccess;
    case cudaDevP2PAttrCudaArrayAccessSupported:
      *value = 0;  // there are no arrays
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t can_access_peer(ThreadState& thread, int* can_access, int index, int peer) {
  thread.charge(CostId::DeviceGetAttribute);
  if (can_access == nullptr) return cudaErrorInvalidValue;
  if (device_at(index) == nullptr || device_at(peer) == nullptr) return cudaErrorInvalidDevice;
  *can_access = can_be_peers(index, peer) ? 1 : 0;
  return cudaSuccess;
}

}  // namespace

void read_peers() {
  const char* text = std::getenv("SIMCUDA_PEERS");
  const std::string_view wanted = text == nullptr ? "" : text;
  if (!wanted.empty() && wanted != "0" && wanted != "1") {
    throw std::runtime_error("SIMCUDA_PEERS: wanted 0 or 1, got '" + std::string(wanted) + "'");
  }
  peers().reach_each_other = wanted != "0";
}

bool can_be_peers(int device, int peer) { return device != peer && peers().reach_each_other; }

SIMCUDA_TWINS(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer,
              (int* can_access, int index, int peer), (as_number(index), as_number(peer)),
              can_access_peer(thread, can_access, index, peer))

SIMCUDA_RUNTIME(cudaDeviceEnablePeerAccess, (int peer, unsigned int flags),
                (as_number(peer), flags), enable(thread, peer, flags))

SIMCUDA_RUNTIME(cudaDeviceDisablePeerAccess, (int peer), (as_number(peer)), disable(thread, peer))

SIMCUDA_PAIR(cudaDeviceGetP2PAttribute, (int* value, cudaDeviceP2PAttr wanted, int from, int to),
             cuDeviceGetP2PAttribute,
             (int* value, CUdevice_P2PAttribute wanted, CUdevice from, CUdevice to),
             (as_number(wanted), as_number(from), as_number(to)),
             attribute(thread, value, as_runtime<cudaDeviceP2PAttr>(wanted), from, to))

SIMCUDA_DRIVER(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (number(peer), flags),
               device_of(peer) < 0 ? cudaErrorDeviceUninitialized
                                   : enable(thread, device_of(peer), flags))

SIMCUDA_DRIVER(cuCtxDisablePeerAccess, (CUcontext peer), (number(peer)),
               device_of(peer) < 0 ? cudaErrorDeviceUninitialized
                                   : disable(thread, device_of(peer)))

}  // namespace simcuda
