// The replayer: steps flow in, calls to a backend flow out. One instance is one pass over a trace.
// It times calls where a recorder is given, and reads no clock per call where none is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "harness/core/measure/clock.h"
#include "harness/core/measure/recorder.h"
#include "harness/core/measure/request_clock.h"
#include "harness/core/measure/step_clock.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/placement_hash.h"
#include "harness/core/replay/process_backends.h"
#include "harness/core/replay/trace_compiler.h"

namespace allocmark {

// What happens after a failed request. Skip: the program goes on without the block; its free and
// records are skipped and counted. Stop: the trace ends at the failed request. RetryAfterSync: the
// program waits for the device and asks once more, so that the allocator can use what was freed
// meanwhile; if that fails too, it goes on without the block.
enum class OomPolicy : std::uint8_t { Skip, Stop, RetryAfterSync };
// As users write them, in the order of OomPolicy.
[[nodiscard]] std::vector<std::string> oom_policy_names();
// One of these; throws UsageError.
[[nodiscard]] OomPolicy parse_oom_policy(std::string_view text);

// The streams of a cell by dense index: 0 is the default stream, the others are made here
// (non-blocking) and destroyed with this object. Without a device all of them are the default
// stream.
class StreamSet {
 public:
  StreamSet(std::uint32_t stream_count, bool has_device);
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;
  [[nodiscard]] std::span<const cudaStream_t> all() const { return streams_; }

 private:
  std::vector<cudaStream_t> streams_;
};

struct ReplayCounts {
  std::uint64_t event_count = 0;       // events run, up to and with the one that stopped the replay
  std::uint64_t allocate_count = 0;    // requests, failed ones included
  std::uint64_t deallocate_count = 0;  // blocks given back
  std::uint64_t oom_count = 0;
  std::uint64_t failed_again_count = 0;  // of requests with kFailedBefore, which are in none above
  // Requests asked once more under OomPolicy::RetryAfterSync, and those of them that were served;
  // these are not in oom_count.
  std::uint64_t asked_after_sync_count = 0, served_after_sync_count = 0;
  std::uint64_t skipped_free_count = 0;
  std::uint64_t skipped_record_count = 0;
  bool stopped = false;  // by a failed request under OomPolicy::Stop
};

// A block of the program, by slot.
struct ReplayBlock {
  void* pointer = nullptr;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
  enum class State : std::uint8_t { Empty, Live, Failed } state = State::Empty;
};

struct ReplaySetup {
  Backend* backend = nullptr;            // owned by the caller, as are the others
  ProcessBackends* processes = nullptr;  // the same, where the trace has several; else null
  DeviceWork* work = nullptr;
  std::span<const cudaStream_t> streams;  // by dense index
  OomPolicy on_oom = OomPolicy::Skip;
  MemorySide side = MemorySide::Device;  // the backend's
  Recorder* recorder = nullptr;          // null: nothing is timed per call
  StepClock* steps = nullptr;            // null: nobody asks how long steps take; with a recorder
  RequestClock* requests = nullptr;  // null: nobody asks how long requests took; with a recorder
  const TickClock* clock = nullptr;  // needed with a recorder
  const SimcuThreadClock* simcu_clock = nullptr;  // null without simcuda
  // A kernel of that length follows every request on its stream, for traces that tell nothing of
  // the device's work (assumed_work.h); 0: none.
  std::uint64_t assumed_kernel_ns = 0;
  // Gets the address of every request, null where it failed; the caller has made room for all.
  // Null: nobody asks.
  std::vector<void*>* places = nullptr;
};

// What an event of a private pool, or a Trim of one, asks of an allocator.
[[nodiscard]] PoolAction pool_action_of(EventKind kind);
// The call that such a step stands for.
[[nodiscard]] PoolCall pool_call_of(const ReplayStep& step, std::span<const cudaStream_t> streams);

// Runs a Trim.
inline void trim_backend(const ReplaySetup& setup, const ReplayStep& step) {
  if (step.slot != 0) return setup.backend->call_pool(pool_call_of(step, setup.streams));
  if (setup.processes != nullptr) return setup.processes->trim(step.stream);
  setup.backend->trim();
}

class Replayer {
 public:
  explicit Replayer(const ReplaySetup& setup) : setup_(setup) {}

  // Makes room for the slots of the steps to come; call it before run, outside the clock.
  void reserve_slots(std::uint32_t slot_count);

  // Runs the steps until the end or until the policy stops them. CUDA errors throw
  // EnvironmentError.
  void run(std::span<const ReplayStep> steps);

  // Gives back every block still live, which a trace's end leaves behind; neither timed nor
  // counted.
  void release_live();

  [[nodiscard]] const ReplayCounts& counts() const { return counts_; }
  [[nodiscard]] std::uint64_t placement_hash() const { return placement_.value(); }

 private:
  template <bool kTimed>
  void run_steps(std::span<const ReplayStep> steps);
  template <bool kTimed>
  bool allocate(const ReplayStep& step);
  void ask_again(const ReplayStep& step);
  template <bool kTimed>
  void deallocate(const ReplayStep& step);
  template <bool kTimed>
  void call_pool(const ReplayStep& step);
  template <bool kTimed>
  void run_other(const ReplayStep& step);
  void hold_host(const ReplayStep& step);
  void follow_requests(const ReplayStep& step);
  void follow_synchronize();
  [[nodiscard]] bool asks_after_sync() const {
    return setup_.on_oom == OomPolicy::RetryAfterSync && setup_.work != nullptr;
  }
  void note_place(const AllocateResult& result) {
    if (setup_.places == nullptr) return;
    setup_.places->push_back(result.status == AllocateStatus::Ok ? result.pointer : nullptr);
  }

  ReplaySetup setup_;
  std::uint64_t host_bytes_live_ = 0;
  ReplayCounts counts_;
  PlacementHash placement_{setup_.side};
  std::vector<ReplayBlock> blocks_;
};

}  // namespace allocmark
