// Work on streams, as the Kernel, Busy and Sync events ask for it: through simcuda's control
// interface where that is loaded, by small kernels on a GPU, and not at all for backends without
// device memory. No call here is timed by itself.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/core/replay/simcu_api.h"

namespace allocmark {

// How long a gated kernel bears a host that makes no progress; on simcuda, whose host never gets
// stuck, how long it runs in virtual time.
inline constexpr std::uint64_t kGateStallNsMax = 700'000'000;

class DeviceWork {
 public:
  DeviceWork() = default;
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;
  virtual ~DeviceWork() = default;

  // A kernel of that duration starts on the stream; the host goes on. Throws EnvironmentError on
  // CUDA errors.
  virtual void launch(cudaStream_t stream, std::uint64_t duration_ns) = 0;
  // A kernel starts that ends at the next synchronize. Where the host gets nowhere for
  // kGateStallNsMax - it waits for the device inside a call, and so for this kernel - it ends, too.
  virtual void launch_gated(cudaStream_t stream) = 0;
  // The program works on the host for that long. Once it was called, launches cost no time of their
  // own: a program's host time contains them.
  virtual void spend_host(std::uint64_t duration_ns) = 0;
  // The program holds so many bytes of the host's memory. False where the device has no memory but
  // the host's and too little is left; then it holds what it held.
  [[nodiscard]] virtual bool hold_host(std::uint64_t /*size_bytes*/) { return true; }
  // A pass is over: the program holds nothing of the host, which answers again where it hung.
  virtual void release_host() {}
  // Every gated kernel ends, then the host waits for the whole device.
  virtual void synchronize() = 0;

  // Called by the host every few events: it is not stuck, so gated kernels run on. Costs a store.
  void note_progress() {
    std::atomic_ref<std::uint64_t>(*progress_).store(++progress_count_, std::memory_order_relaxed);
  }

 protected:
  // Where gated kernels see the host's progress: mapped host memory on a GPU.
  std::uint64_t* progress_ = &progress_unseen_;

 private:
  std::uint64_t progress_count_ = 0;
  std::uint64_t progress_unseen_ = 0;
};

// For the current device; `simcu` is SimcuApi::find()'s answer. Loads the kernels, so that their
// code takes its device memory now and not in the middle of a pass.
[[nodiscard]] std::unique_ptr<DeviceWork> make_device_work(const SimcuApi& simcu);

// Why a replay with `busy_count` gated kernels may take minutes: in real time each call that waits
// for the device waits for kGateStallNsMax. Empty where it cannot, as on simcuda.
[[nodiscard]] std::string gate_stall_note(std::uint64_t busy_count, const SimcuApi& simcu);

// Does nothing: for backends that have no device memory, which then need no device at all.
[[nodiscard]] std::unique_ptr<DeviceWork> make_no_device_work();

}  // namespace allocmark
