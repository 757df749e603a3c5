// The three kinds of device work.
#include "harness/core/replay/device_work.h"

#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/error.h"
#include "harness/core/replay/kernels.h"

namespace allocmark {

namespace {

// What the host tells gated kernels, in mapped host memory. Two cache lines: the kernels look at
// both all the time, and the host writes the second one often.
struct GateWords {
  alignas(128) std::uint64_t opened = 0;
  alignas(128) std::uint64_t progress = 0;
};

class NoDeviceWork final : public DeviceWork {
 public:
  void launch(cudaStream_t /*stream*/, std::uint64_t /*duration_ns*/) override {}
  void launch_gated(cudaStream_t /*stream*/) override {}
  void spend_host(std::uint64_t /*duration_ns*/) override {}
  void synchronize() override {}
};

// A kernel "until the next synchronize" is one of kGateStallNsMax of virtual time here: nobody else
// moves the virtual clock, so it runs until something waits for it, and that wait takes no real
// time. Unlike a gate it also ends for a cudaFree that waits for it, as the kernel on a GPU does.
class SimulatedDeviceWork final : public DeviceWork {
 public:
  explicit SimulatedDeviceWork(const SimcuApi& simcu) : simcu_(simcu) {}

  void launch(cudaStream_t stream, std::uint64_t duration_ns) override {
    if (host_is_told_) return check(simcu_.enqueue(stream, duration_ns), "simcu_enqueue");
    check(simcu_.launch(stream, duration_ns), "simcu_launch");
  }
  void spend_host(std::uint64_t duration_ns) override {
    host_is_told_ = true;
    simcu_.pass_time(duration_ns);
  }
  void launch_gated(cudaStream_t stream) override { launch(stream, kGateStallNsMax); }
  [[nodiscard]] bool hold_host(std::uint64_t size_bytes) override {
    return simcu_.hold_host(size_bytes) == cudaSuccess;
  }
  void release_host() override {
    (void)simcu_.hold_host(0);
    simcu_.restart_host();
  }
  void synchronize() override { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); }

 private:
  void check(int error, const char* what) const {
    if (error == cudaSuccess) return;
    throw EnvironmentError(
        ErrorText{.what = std::string(what) + " failed",
                  .where = "simulated CUDA runtime",
                  .got = "error " + std::to_string(error) + " " + simcu_.last_message(),
                  .next = "this is a fault of allocmark: please report it"});
  }

  SimcuApi simcu_;
  bool host_is_told_ = false;
};

class GpuDeviceWork final : public DeviceWork {
 public:
  GpuDeviceWork() {
    void* host = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaHostAlloc(&host, sizeof(GateWords), cudaHostAllocMapped));
    words_.reset(new (host) GateWords);
    progress_ = &words_->progress;
    void* device = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
    words_on_device_ = static_cast<const GateWords*>(device);
    // The first launch loads the kernels' code, which takes device memory.
    launch(nullptr, 0);
    launch_gated(nullptr);
    synchronize();
  }

  ~GpuDeviceWork() override {
    open_all();
    // The kernels read the gate, so it may only go when they are done.
    (void)cudaDeviceSynchronize();
  }

  void launch(cudaStream_t stream, std::uint64_t duration_ns) override {
    const auto begin = std::chrono::steady_clock::now();
    ALLOCMARK_CUDA_CHECK(launch_spin_kernel(stream, duration_ns));
    launching_ += std::chrono::steady_clock::now() - begin;
  }

  // The launches since the last call are part of that time.
  void spend_host(std::uint64_t duration_ns) override {
    const auto now = std::chrono::steady_clock::now();
    const auto end = now + std::chrono::nanoseconds(duration_ns) -
                     std::exchange(launching_, std::chrono::steady_clock::duration{});
    while (std::chrono::steady_clock::now() < end) note_progress();
  }

  void launch_gated(cudaStream_t stream) override {
    ++ticket_last_;
    const GateKernel gate{.opened = &words_on_device_->opened,
                          .progress = &words_on_device_->progress,
                          .ticket = ticket_last_,
                          .stall_ns_max = kGateStallNsMax};
    ALLOCMARK_CUDA_CHECK(launch_gate_kernel(stream, gate));
  }

  void synchronize() override {
    open_all();
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  }

 private:
  struct FreeHost {
    void operator()(GateWords* pointer) const { (void)cudaFreeHost(pointer); }
  };

  void open_all() {
    std::atomic_ref<std::uint64_t>(words_->opened).store(ticket_last_, std::memory_order_seq_cst);
  }

  std::unique_ptr<GateWords, FreeHost> words_;
  const GateWords* words_on_device_ = nullptr;
  std::uint64_t ticket_last_ = 0;
  std::chrono::steady_clock::duration launching_{};  // since spend_host
};

}  // namespace

std::unique_ptr<DeviceWork> make_device_work(const SimcuApi& simcu) {
  if (simcu.present) return std::make_unique<SimulatedDeviceWork>(simcu);
  return std::make_unique<GpuDeviceWork>();
}

std::string gate_stall_note(std::uint64_t busy_count, const SimcuApi& simcu) {
  if (busy_count == 0 || simcu.present) return {};
  return fmt::format(
      "the trace has {} busy kernels, which end at its next sync: a request in which the allocator "
      "waits for the device before that takes {} ms",
      busy_count, kGateStallNsMax / 1'000'000);
}

std::unique_ptr<DeviceWork> make_no_device_work() { return std::make_unique<NoDeviceWork>(); }

}  // namespace allocmark
