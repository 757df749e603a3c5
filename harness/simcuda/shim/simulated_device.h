// One simulated GPU as the shims use it: the core's device, its memory contents, its lock, and the
// objects behind cudaStream_t, cudaEvent_t and cudaMemPool_t. In: handles from programs. Out: what
// they stand for.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/simcuda/core/device.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/memory_cleaner.h"
#include "harness/simcuda/shim/memory_contents.h"
#include "harness/simcuda/shim/pool_values.h"
#include "harness/simcuda/shim/profile.h"
#include "harness/simcuda/shim/shared_blocks.h"

namespace simcuda {

inline constexpr int kDeviceCountMax = 16;

class SimulatedDevice;

// Behind the opaque handles, in a HandleArena. An object is reused on the device that made it. It
// is looked at without the device's lock, by threads that hold a stale handle as well.
struct SimStream {
  SimulatedDevice* device = nullptr;
  std::atomic<StreamId> id = 0;
  std::atomic<unsigned> flags = 0;
  std::atomic<int> priority = 0;
  std::atomic<std::uint64_t> number = 0;  // cudaStreamGetId
  std::atomic<bool> captured = false;     // see capture.h
  std::atomic<bool> live = false;
};
struct SimEvent {
  SimulatedDevice* device = nullptr;
  std::atomic<EventId> id = 0;
  std::atomic<unsigned> flags = 0;
  std::atomic<std::uint64_t> capture_id = 0;  // in which it was last recorded; 0: in none
  std::atomic<bool> live = false;
};
struct SimPool {
  SimulatedDevice* device = nullptr;
  std::atomic<PoolId> id = 0;
  std::atomic<bool> live = false;
  PoolIdentity identity;
  bool is_host = false;      // its memory is the host's
  bool is_default = false;   // of a place of the host; never destroyed
  bool is_imported = false;  // another process's: only opens blocks, has access and is destroyed
  ShareRecord source;        // Imported: what was exported
  // By device; none at first. A device's own pool needs none.
  std::array<cudaMemAccessFlags, kDeviceCountMax> peer_access{};
};

// A function of the program, and one that waits for its place in a stream.
struct HostFunction {
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
};
struct PendingHostFunction {
  EventId after = 0;
  HostFunction what;
};

// What the environment says about every simulated device.
struct DeviceSetup {
  std::uint64_t capacity_bytes = 0;  // memory that programs can take; 0 = the profile's
  StartState start = StartState::Plain;
  std::uint64_t total_bytes = 0;  // as cudaMemGetInfo says it; 0 = the profile's
  SharedHost host;
};

class SimulatedDevice {
 public:
  SimulatedDevice(DevicePlace place, const Profile& profile, const DeviceSetup& setup);

  // Held around every use of the members below.
  std::mutex mutex;
  const int node_index;  // among all GPUs of the node: NVML's number
  int index = 0;         // CUDA's number, by CUDA_VISIBLE_DEVICES
  const Profile profile;
  MemoryContents contents;
  Device core;
  MemoryCleaner cleaner;
  SharedBlocks shared;
  std::uint64_t held_host_bytes = 0;  // as simcu_hold_host() said
  SimPool* default_pool = nullptr;
  SimPool* current_pool = nullptr;
  std::vector<const SimPool*> shared_pools;  // those with handles for other processes, live or not
  std::vector<PendingHostFunction> host_functions;  // behind closed gates
  std::condition_variable gate_opened;
  std::map<int, std::uint64_t> limits;  // by cudaLimit
  std::map<PoolId, Range> host_ranges;  // mapped for pools of the host's memory
  // Stand for streams of other devices in which memory of this one is taken and freed, by the
  // device's index and the stream's id there.
  std::map<std::pair<int, StreamId>, StreamId> guest_streams;
  // Captured streams that follow the legacy stream, which cannot be used meanwhile.
  std::atomic<std::uint32_t> blocking_capture_count = 0;

  // Before the first call of CUDA that needs devices.
  void set_index(int cuda_index);

  // What the profile says; every profile has it.
  [[nodiscard]] int attribute(cudaDeviceAttr id) const { return profile.attributes.at(id); }
  // 90: 9.0.
  [[nodiscard]] int architecture() const {
    return 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
           attribute(cudaDevAttrComputeCapabilityMinor);
  }

  // The objects of new handles; null where a million are in use.
  [[nodiscard]] SimStream* new_stream(StreamId id);
  [[nodiscard]] SimEvent* new_event(EventId id);
  [[nodiscard]] SimPool* new_pool(PoolId id);
  // The handle of a core's stream; null for the legacy stream.
  [[nodiscard]] SimStream* stream_handle(StreamId id);
  void recycle(SimStream* stream);
  void recycle(SimEvent* event);
  // The end of the primary context: its memory, streams and events go; pools, their blocks and
  // memory handles stay, as on a GPU. Work on the device has ended; with the lock held.
  void reset(std::uint64_t now_ns);

  // Live allocation that holds the address; for mapped ranges as much as is mapped without a hole
  // from there on, or less where that holds `wanted_bytes` from the address on. Empty where there
  // is none.
  [[nodiscard]] Range live_range(std::uint64_t address,
                                 std::uint64_t wanted_bytes = UINT64_MAX) const;
  // Readable and writable bytes of device memory; null where the range is not wholly allocated.
  [[nodiscard]] void* view(std::uint64_t address, std::uint64_t size_bytes);

  // References to memory handles, for when their contents can go.
  struct HandleUse {
    std::uint64_t size_bytes = 0;
    std::uint64_t reference_count = 0;
    std::uint64_t mapping_count = 0;
    CUmemAllocationProp properties{};  // as the handle was asked for
  };
  std::unordered_map<MemoryHandle, HandleUse> handles;
  void drop_if_unused(MemoryHandle handle);

 private:
  std::vector<SimStream*> streams_;
  std::vector<SimStream*> spare_streams_;
  std::vector<SimEvent*> spare_events_;
};

// A stream handle's device and the core's id; device null where the handle is not valid, or means
// the current context's stream and there is none.
struct StreamRef {
  SimulatedDevice* device = nullptr;
  StreamId id = kLegacyStream;
  const SimStream* stream = nullptr;                   // null for the legacy stream
  bool captured = false;                               // its calls go through capture.h
  cudaError_t error = cudaErrorInvalidResourceHandle;  // where the device is null
};
// What stands for its order; the legacy stream's is the device's.
[[nodiscard]] inline const void* order_key(const StreamRef& ref) {
  return ref.stream != nullptr ? static_cast<const void*>(ref.stream) : ref.device;
}
[[nodiscard]] StreamRef resolve_stream(ThreadState& thread, cudaStream_t stream);
// Null where the handle is not valid.
[[nodiscard]] SimEvent* resolve_event(cudaEvent_t event);
[[nodiscard]] SimPool* resolve_pool(cudaMemPool_t pool);
// Also one of another process, which resolve_pool does not take for a pool.
[[nodiscard]] SimPool* resolve_any_pool(cudaMemPool_t pool);

// The device of the calling thread; null where there are no devices.
[[nodiscard]] SimulatedDevice* current_device(const ThreadState& thread);
// The device whose address windows hold the address; null for host memory.
[[nodiscard]] SimulatedDevice* device_of_address(std::uint64_t address);

[[nodiscard]] cudaError_t to_error(Status status);

// The stream works until that time, if it would not anyway. The device's lock is held.
[[nodiscard]] Status work_until(const ThreadState& thread, SimulatedDevice& device, StreamId stream,
                                std::uint64_t end_ns);

// Adds the costs of what the core reported (waiting, chunks given back) to the thread's clock, and
// that of waiting for freed memory to be cleaned where an operation has taken some of that. The
// device's lock is held.
void charge_work(ThreadState& thread, SimulatedDevice& device, const Work& work);

// The part of charge_work about clearing, for pages that moved at another time than now.
void note_pages(ThreadState& thread, SimulatedDevice& device, std::uint64_t moved_at_ns);

// Repeats `operation`, which returns something with a status, while a closed gate is in the way. A
// gate that nobody opens for a while ends in cudaErrorLaunchTimeout instead of a hang: the status
// then stays Blocked.
inline constexpr int kGateWaitSeconds = 5;
template <class Operation>
[[nodiscard]] auto wait_for_gates(SimulatedDevice& device, std::unique_lock<std::mutex>& lock,
                                  Operation operation) {
  auto outcome = operation();
  while (outcome.status == Status::Blocked) {
    if (device.gate_opened.wait_for(lock, std::chrono::seconds(kGateWaitSeconds)) ==
        std::cv_status::timeout) {
      return operation();
    }
    outcome = operation();
  }
  return outcome;
}

}  // namespace simcuda
