// The simulated H200 as the device of a golden replay (parity.h). Checks; times nothing.
#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/simcuda/core/device.h"
#include "harness/tools/parity/parity.h"

namespace allocmark::caching {
namespace {

// Traces name streams by index: 0 is the default stream, then those that exist from the start, then
// those that the allocator makes.
constexpr std::size_t kProgramStreamCount = 7;
// A busy kernel ends when something waits for it.
constexpr std::uint64_t kBusyNs = 1'000'000'000'000;

void succeed(simcuda::Status status, const char* call) {
  if (status != simcuda::Status::Ok)
    throw std::runtime_error(std::string("the simulated device refuses ") + call);
}

class SimulatedParityDevice final : public ParityDevice {
 public:
  SimulatedParityDevice() : device_(simcuda::h200_config(simcuda::StartState::Kernel)) {
    for (std::size_t i = 0; i < kProgramStreamCount; ++i) static_cast<void>(create_stream());
  }

  void start_busy(Stream stream) override {
    wait_until(device_.streams().launch(id_of(stream), kBusyNs, now_ns_).work);
  }
  void end_busy() override { wait_for_device(); }

  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, Stream) override {
    return address_of(device_.allocate(size_bytes), "cudaMalloc");
  }
  void free(std::uint64_t address) override {
    const simcuda::Outcome outcome = device_.deallocate(address, now_ns_);
    succeed(outcome.status, "cudaFree");
    wait_until(outcome.work);
  }
  DeviceMemory memory() override { return {device_.free_bytes(), device_.total_bytes()}; }
  std::uint64_t device_total_bytes() override { return device_.total_bytes(); }

  Event create_event() override { return device_.streams().create_event(); }
  void destroy_event(Event event) override {
    static_cast<void>(device_.streams().destroy_event(event));
  }
  void record_event(Event event, Stream stream) override {
    succeed(device_.streams().record(event, id_of(stream), now_ns_), "cudaEventRecord");
  }
  bool event_done(Event event) override {
    return device_.streams().query_event(event, now_ns_) == simcuda::Status::Ok;
  }
  void wait_for_event(Event event) override {
    finish(device_.synchronize_event(event, now_ns_), "cudaEventSynchronize");
  }
  void wait_for_stream(Stream stream) override {
    finish(device_.synchronize_stream(id_of(stream), now_ns_), "cudaStreamSynchronize");
  }
  void wait_for_device() override {
    finish(device_.synchronize_device(now_ns_), "cudaDeviceSynchronize");
  }

  std::uint64_t reserve_address(std::uint64_t size_bytes) override {
    const auto address =
        address_of(device_.virtual_memory().reserve(size_bytes, 0), "cuMemAddressReserve");
    return address.value();
  }
  void free_address(std::uint64_t address, std::uint64_t size_bytes) override {
    succeed(device_.virtual_memory().free_reservation(address, size_bytes).status,
            "cuMemAddressFree");
  }
  std::optional<PageHandle> create_page(std::uint64_t size_bytes) override {
    const simcuda::HandleOutcome outcome = device_.virtual_memory().create(size_bytes);
    if (outcome.status == simcuda::Status::OutOfMemory) return std::nullopt;
    succeed(outcome.status, "cuMemCreate");
    return outcome.handle;
  }
  void release_page(PageHandle page) override {
    succeed(device_.virtual_memory().release(page).status, "cuMemRelease");
  }
  void map_page(std::uint64_t address, std::uint64_t size_bytes, PageHandle page) override {
    succeed(device_.virtual_memory().map(address, size_bytes, 0, page).status, "cuMemMap");
  }
  void unmap_page(std::uint64_t address, std::uint64_t size_bytes) override {
    succeed(device_.virtual_memory().unmap(address, size_bytes).status, "cuMemUnmap");
  }
  void allow_access(std::uint64_t address, std::uint64_t size_bytes) override {
    succeed(
        device_.virtual_memory().set_access(address, size_bytes, simcuda::Access::ReadWrite).status,
        "cuMemSetAccess");
  }

  void prepare_pool() override {
    pool().set_release_threshold(~std::uint64_t{0});
    pool().set_follow_event_dependencies(true);
    pool().set_allow_opportunistic(true);
    pool().set_allow_internal_dependencies(true);
  }
  std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes, Stream stream) override {
    return address_of(
        device_.allocate_async(size_bytes, id_of(stream), simcuda::kDefaultPool, now_ns_),
        "cudaMallocAsync");
  }
  void pool_free(std::uint64_t address, Stream stream) override {
    succeed(device_.deallocate_async(address, id_of(stream), now_ns_).status, "cudaFreeAsync");
  }
  void trim_pool() override {
    succeed(device_.trim_pool(simcuda::kDefaultPool, 0).status, "cudaMemPoolTrimTo");
  }
  PoolUsage pool_usage() override {
    const simcuda::MemoryUsage usage = pool().usage();
    return {.used_bytes = usage.used_bytes,
            .used_bytes_peak = usage.used_bytes_high,
            .reserved_bytes = usage.reserved_bytes,
            .reserved_bytes_peak = usage.reserved_bytes_high};
  }
  Stream create_stream() override {
    const simcuda::StreamOutcome outcome =
        device_.create_stream(simcuda::StreamKind::NonBlocking, now_ns_);
    succeed(outcome.status, "cudaStreamCreate");
    streams_.push_back(outcome.stream);
    return streams_.size() - 1;
  }
  void destroy_stream(Stream stream) override {
    static_cast<void>(device_.destroy_stream(id_of(stream), now_ns_));
  }
  void make_stream_wait(Stream stream, Event event) override {
    succeed(device_.streams().wait(id_of(stream), event, now_ns_), "cudaStreamWaitEvent");
  }

 private:
  [[nodiscard]] simcuda::StreamId id_of(Stream stream) const { return streams_.at(stream); }
  [[nodiscard]] simcuda::MemoryPool& pool() { return *device_.pool(simcuda::kDefaultPool); }

  void wait_until(const simcuda::Work& work) {
    now_ns_ = std::max(now_ns_, work.host_wait_until_ns);
  }
  void finish(const simcuda::Outcome& outcome, const char* call) {
    succeed(outcome.status, call);
    wait_until(outcome.work);
  }
  std::optional<std::uint64_t> address_of(const simcuda::AllocationOutcome& outcome,
                                          const char* call) {
    if (outcome.status == simcuda::Status::OutOfMemory) return std::nullopt;
    succeed(outcome.status, call);
    wait_until(outcome.work);
    return outcome.address;
  }

  simcuda::Device device_;
  std::uint64_t now_ns_ = 0;
  std::vector<simcuda::StreamId> streams_ = {simcuda::kLegacyStream};
};

}  // namespace

std::unique_ptr<ParityDevice> make_simulated_device() {
  return std::make_unique<SimulatedParityDevice>();
}

}  // namespace allocmark::caching
