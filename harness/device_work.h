// Work on streams, as the Kernel, Busy and Sync events ask for it: through simcuda's control
// interface where that is loaded, by small kernels on a GPU, and not at all for backends without
// device memory. Nothing here is timed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "harness/simcu_api.h"

namespace allocmark {

class DeviceWork {
 public:
  virtual ~DeviceWork() = default;

  // A kernel of that duration starts on the stream; the host goes on. Throws EnvironmentError on
  // CUDA errors.
  virtual void launch(cudaStream_t stream, std::uint64_t duration_ns) = 0;
  // A kernel starts that ends at the next synchronize, or after 0.7 s.
  virtual void launch_gated(cudaStream_t stream) = 0;
  // Every gated kernel ends, then the host waits for the whole device.
  virtual void synchronize() = 0;
};

// For the current device; `simcu` is SimcuApi::find()'s answer. Loads the kernels, so that their
// code takes its device memory now and not in the middle of a pass.
[[nodiscard]] std::unique_ptr<DeviceWork> make_device_work(const SimcuApi& simcu);

// Does nothing: for backends that have no device memory, which then need no device at all.
[[nodiscard]] std::unique_ptr<DeviceWork> make_no_device_work();

}  // namespace allocmark
