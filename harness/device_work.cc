// The three kinds of device work.
#include "harness/device_work.h"

#include <atomic>
#include <string>

#include "allocators/cuda_check.h"
#include "base/error.h"
#include "harness/kernels.h"

namespace allocmark {

namespace {

constexpr std::uint64_t kGateTimeLimitNs = 700'000'000;

class NoDeviceWork final : public DeviceWork {
 public:
  void launch(cudaStream_t /*stream*/, std::uint64_t /*duration_ns*/) override {}
  void launch_gated(cudaStream_t /*stream*/) override {}
  void synchronize() override {}
};

// A kernel "until the next synchronize, or 0.7 s" is one of 0.7 s of virtual time here: nobody else
// moves the virtual clock, so it runs until something waits for it, and that wait takes no real
// time. Unlike a gate it also ends for a cudaFree that waits for it, as the kernel on a GPU does.
class SimulatedDeviceWork final : public DeviceWork {
 public:
  explicit SimulatedDeviceWork(const SimcuApi& simcu) : simcu_(simcu) {}

  void launch(cudaStream_t stream, std::uint64_t duration_ns) override {
    check(simcu_.launch(stream, duration_ns), "simcu_launch");
  }
  void launch_gated(cudaStream_t stream) override { launch(stream, kGateTimeLimitNs); }
  void synchronize() override { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); }

 private:
  void check(int error, const char* what) const {
    if (error == cudaSuccess) return;
    throw EnvironmentError(
        ErrorText{.what = std::string(what) + " failed",
                  .where = "simulated CUDA runtime",
                  .wanted = {},
                  .got = "error " + std::to_string(error) + " " + simcu_.last_message(),
                  .next = "this is a fault of allocmark: please report it"});
  }

  SimcuApi simcu_;
};

class GpuDeviceWork final : public DeviceWork {
 public:
  GpuDeviceWork() {
    void* host = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaHostAlloc(&host, sizeof(std::uint64_t), cudaHostAllocMapped));
    opened_.reset(static_cast<std::uint64_t*>(host));
    *opened_ = 0;
    void* device = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaHostGetDevicePointer(&device, host, 0));
    opened_on_device_ = static_cast<const std::uint64_t*>(device);
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
    ALLOCMARK_CUDA_CHECK(launch_spin_kernel(stream, duration_ns));
  }

  void launch_gated(cudaStream_t stream) override {
    ++ticket_last_;
    const GateKernel gate{
        .opened = opened_on_device_, .ticket = ticket_last_, .time_limit_ns = kGateTimeLimitNs};
    ALLOCMARK_CUDA_CHECK(launch_gate_kernel(stream, gate));
  }

  void synchronize() override {
    open_all();
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  }

 private:
  struct FreeHost {
    void operator()(std::uint64_t* pointer) const { (void)cudaFreeHost(pointer); }
  };

  void open_all() {
    std::atomic_ref<std::uint64_t>(*opened_).store(ticket_last_, std::memory_order_seq_cst);
  }

  std::unique_ptr<std::uint64_t, FreeHost> opened_;
  const std::uint64_t* opened_on_device_ = nullptr;
  std::uint64_t ticket_last_ = 0;
};

}  // namespace

std::unique_ptr<DeviceWork> make_device_work(const SimcuApi& simcu) {
  if (simcu.present) return std::make_unique<SimulatedDeviceWork>(simcu);
  return std::make_unique<GpuDeviceWork>();
}

std::unique_ptr<DeviceWork> make_no_device_work() { return std::make_unique<NoDeviceWork>(); }

}  // namespace allocmark
