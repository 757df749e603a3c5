// cudaDeviceReset and cuDevicePrimaryCtxReset: the end of the primary context, for all threads. In:
// the device. Out: no memory of cudaMalloc and cudaMallocHost, no streams, no events.
#include <mutex>

#include "harness/simcuda/shim/contexts.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/synchronize.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t reset(ThreadState& thread, int index) {
  SimulatedDevice* const device = device_at(index);
  if (device == nullptr) return cudaErrorInvalidDevice;
  const cudaError_t waited = synchronize(thread, *device, CostId::DeviceSynchronize, [&] {
    return device->core.synchronize_device(thread.now_ns());
  });
  if (waited != cudaSuccess) return waited;
  const std::lock_guard lock(device->mutex);
  device->reset(thread.now_ns());
  device->core.return_pinned(forget_host_memory(index));
  forget_managed_memory(index);
  forget_primary_context(index);
  return cudaSuccess;
}

}  // namespace

SIMCUDA_RUNTIME(cudaDeviceReset, (), (), reset(thread, thread.device))

SIMCUDA_DRIVER(cuDevicePrimaryCtxReset, (CUdevice index), (as_number(index)), reset(thread, index))

}  // namespace simcuda
