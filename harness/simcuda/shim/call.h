// What every exported CUDA function goes through: the calling thread's state, the call counters,
// injected faults, the call log, the library's start on first use, and the rules of the error
// state. Bodies of calls are lambdas that get the thread and return the error code. In: a call.
// Out: its error code, and the thread's clock moved on.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/simcuda/shim/context_rules.h"
#include "harness/simcuda/shim/cost.h"
#include "harness/simcuda/shim/host_caches.h"
#include "harness/simcuda/simcu.h"

// Exported under the C name that programs link to.
#define SIMCUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace simcuda {

inline constexpr std::size_t kApiCountMax = 1024;

// Grid and stream between __cudaPushCallConfiguration and __cudaPopCallConfiguration.
struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_memory_bytes = 0;
  cudaStream_t stream = nullptr;
};

// What a call tells ThreadSanitizer at its end: orders that CUDA promises, by the address of the
// stream, event or device that makes them, and accesses to the host's memory.
struct PromisedOrder {
  struct HostBytes {
    const void* begin = nullptr;
    std::size_t size_bytes = 0;
    bool is_written = false;
  };
  int hidden_depth = 0;
  std::vector<const void*> after;   // the call comes after what was told about these
  std::vector<const void*> before;  // what comes after these comes after the call
  std::vector<HostBytes> host_bytes;
};

// Everything that belongs to one thread of the program.
struct ThreadState {
  SimcuThreadClock clock{};
  cudaError_t last_error = cudaSuccess;
  int device = 0;               // the runtime's; that of `context` where there is one
  CUcontext context = nullptr;  // current; null until a call makes one current
  std::vector<CUcontext> contexts_below;
  cudaStream_t null_stream = nullptr;  // what stream 0 means: cudaStreamPerThread in such calls
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::uint32_t ordinal = 0;  // 0 for the first thread that called; keys the random numbers
  std::array<std::uint32_t, kCostCount> cost_draws{};  // samples taken of each cost so far
  std::array<std::atomic<std::uint64_t>, kApiCountMax> calls{};  // written by this thread only
  std::vector<LaunchConfiguration> launch_configurations;
  std::vector<cudaStream_t> per_thread_streams;  // by device; null where not made yet
  std::string last_message;
  PromisedOrder promised;  // empty without ThreadSanitizer

  [[nodiscard]] std::uint64_t now_ns() const { return clock.modelled_ns; }
  void advance_to(std::uint64_t time_ns) {
    clock.modelled_ns = std::max(clock.modelled_ns, time_ns);
  }
  std::uint32_t quick_calls = 0;        // calls served by a slab since one that moved pages
  std::uint64_t device_used_bytes = 0;  // as the last such call saw it
  std::size_t displaced_bytes = 0;      // from the host's caches, by the costs of this call
  HostCaches host_caches;

  // Adds one sample of a cost to the clock. `size`: bytes or chunks, whatever the cost counts in;
  // `level`: bytes in use, for the costs that know levels.
  void charge(CostId cost, std::uint64_t size = 0, std::uint64_t level = 0) {
    clock.modelled_ns += sample_cost(cost, {.size = size, .level = level}, ordinal,
                                     cost_draws[static_cast<std::size_t>(cost)]++);
    if (displaces_caches(cost)) {
      if (level != 0) device_used_bytes = level;
      displaced_bytes =
          std::max(displaced_bytes, simcuda::displaced_bytes(cost, device_used_bytes));
    }
  }
  // One sample, scaled: it took `of_ns` where this takes `took_ns`.
  struct Scale {
    std::uint64_t took_ns = 1;
    std::uint64_t of_ns = 1;
  };
  void charge_scaled(CostId cost, std::uint64_t size, Scale scale) {
    __extension__ using Wide = unsigned __int128;
    const std::uint64_t before_ns = clock.modelled_ns;
    charge(cost, size);
    const Wide scaled_ns = Wide{clock.modelled_ns - before_ns} * scale.took_ns / scale.of_ns;
    clock.modelled_ns = before_ns + static_cast<std::uint64_t>(scaled_ns);
  }
  // A call that a slab serves: the driver's long calls leave it a cold cache, so its size in the
  // profile is which quick call in a row it is, up to eight.
  void charge_slab(CostId cost) {
    quick_calls = std::min(quick_calls + 1, kQuickCallsMax);
    charge(cost, quick_calls);
  }
  // A call that moves pages.
  void charge_pages(CostId cost, std::uint64_t size, std::uint64_t used_bytes) {
    quick_calls = 0;
    charge(cost, size, used_bytes);
  }
  static constexpr std::uint32_t kQuickCallsMax = 8;
};

extern thread_local constinit ThreadState* current_thread_state;
[[nodiscard]] ThreadState& make_thread_state();
[[nodiscard]] inline ThreadState& this_thread() {
  return current_thread_state != nullptr ? *current_thread_state : make_thread_state();
}

// One exported function: its name and its place in the counters. Made by static initialisation, one
// per name.
struct ApiRecord {
  explicit ApiRecord(const char* api_name);
  const char* name;
  std::size_t index;
  ApiRecord* next;
};

// A string literal as a template argument.
template <std::size_t kLength>
struct ApiName {
  consteval ApiName(const char (&literal)[kLength]) {
    std::copy_n(literal, kLength, text);
  }  // NOLINT: implicit on purpose
  char text[kLength]{};
};

template <ApiName kName>
struct Api {
  static inline ApiRecord record{kName.text};
};

// Reasons for a call to leave the fast path; 0 in normal operation.
enum SlowReason : std::uint32_t {
  kNotStarted = 1,   // first call: load the profile, make the devices
  kStartFailed = 2,  // bad profile or environment: every call fails
  kFaults = 4,       // a fault plan is active
  kLog = 8,          // calls are logged
  kSticky = 16,      // the context is broken by an error that stays
  kGpuFaults = 32,   // some GPU is to be faulty
  kWatched = 64,     // somebody is told of every call (call_watch.h)
  kCapturing = 128,  // some stream is captured, which forbids some calls (capture.h)
  kSanitized = 512,  // ThreadSanitizer is to see nothing but what CUDA promises
  kNoInit = 256,     // neither cuInit nor a function of the runtime has been called
};
extern std::atomic<std::uint32_t> slow_reasons;

// Zero to go on, else the error the call must return without doing anything.
[[nodiscard]] int begin_call_slow(const ApiRecord& api, ThreadState& thread, bool is_driver_api,
                                  std::initializer_list<std::uint64_t> arguments);
// Around the body of each call, where kSanitized is set. The second one tells what is promised.
void hide_call(ThreadState& thread);
void show_call(ThreadState& thread);
// Work in the stream, event or device `key` comes after this call, or was waited for by it.
void promise_before(ThreadState& thread, const void* key);
void promise_after(ThreadState& thread, const void* key);
// Tells the watch that the call begins, or ended with that result.
void tell_call(const ApiRecord& api, int result);
// A GPU that is planned to be slow takes longer for the call that began then.
void stretch_call(ThreadState& thread, std::uint64_t began_ns);
void log_call(const ApiRecord& api, std::initializer_list<std::uint64_t> arguments, int result,
              std::uint64_t modelled_ns);
// Errors that leave the context unusable.
[[nodiscard]] bool is_sticky(int error);
void set_sticky_error(int error);

// Text for simcu_last_message, and the same error code back.
[[nodiscard]] cudaError_t explain(ThreadState& thread, cudaError_t error, std::string message);

// Makes the primary context of the thread's device current.
void use_primary_context(ThreadState& thread);

// The driver's code for what a function of the runtime answers. The codes are the same but for
// those that the driver lacks.
[[nodiscard]] constexpr CUresult as_result(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidPitchValue:
      return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidDeviceFunction:
      return CUDA_ERROR_INVALID_HANDLE;
    default:
      return static_cast<CUresult>(error);
  }
}
[[nodiscard]] constexpr CUresult as_result(CUresult result) { return result; }

// Totals over all threads, also those that ended.
[[nodiscard]] std::uint64_t call_count(const ApiRecord& api);
[[nodiscard]] ApiRecord* first_api();
// Null where no function of ours has that name.
[[nodiscard]] const ApiRecord* find_api(std::string_view name);
[[nodiscard]] std::size_t api_count();

namespace detail {
// A function of the runtime makes a context current where there is none; the driver's refuse.
template <ApiName kName, bool kIsDriver>
[[nodiscard]] inline int enter_context(ThreadState& thread) {
  if (thread.context != nullptr) [[likely]] {
    return 0;
  }
  if constexpr (kIsDriver) {
    return driver_needs_context(kName.text) ? CUDA_ERROR_INVALID_CONTEXT : 0;
  } else {
    if (runtime_makes_context(kName.text)) use_primary_context(thread);
    return 0;
  }
}

template <ApiName kName, bool kIsDriver, class Result, class Body>
inline Result call(std::initializer_list<std::uint64_t> arguments, Body&& body) {
  const ApiRecord& api = Api<kName>::record;
  ThreadState& thread = this_thread();
  std::atomic<std::uint64_t>& count = thread.calls[api.index];
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::uint32_t slow = slow_reasons.load(std::memory_order_relaxed);
  if (slow == 0) [[likely]] {
    const int refused = enter_context<kName, kIsDriver>(thread);
    return refused != 0 ? static_cast<Result>(refused) : body(thread);
  }
  if ((slow & kWatched) != 0) tell_call(api, SIMCU_CALL_BEGINS);
  if ((slow & kSanitized) != 0) hide_call(thread);
  int refused = begin_call_slow(api, thread, kIsDriver, arguments);
  if (refused == 0) refused = enter_context<kName, kIsDriver>(thread);
  const std::uint64_t before_ns = thread.now_ns();
  const Result result = refused != 0 ? static_cast<Result>(refused) : body(thread);
  if ((slow & kGpuFaults) != 0) stretch_call(thread, before_ns);
  if ((slow_reasons.load(std::memory_order_relaxed) & kLog) != 0) {
    log_call(api, arguments, static_cast<int>(result), thread.now_ns() - before_ns);
  }
  if ((slow & kSanitized) != 0) show_call(thread);
  if ((slow & kWatched) != 0) tell_call(api, static_cast<int>(result));
  return result;
}
}  // namespace detail

// A device's or attribute's number as an argument of a call.
inline std::uint64_t as_number(int value) { return static_cast<std::uint64_t>(value); }

// A runtime call. Its error becomes the thread's last error, except "not ready", which is an
// answer.
template <ApiName kName, class Body>
inline cudaError_t runtime_call(std::initializer_list<std::uint64_t> arguments, Body&& body) {
  const cudaError_t error = detail::call<kName, false, cudaError_t>(arguments, body);
  if (error != cudaSuccess && error != cudaErrorNotReady) [[unlikely]] {
    this_thread().last_error = error;
  }
  return error;
}

// A driver call: leaves the runtime's last error alone.
template <ApiName kName, class Body>
inline CUresult driver_call(std::initializer_list<std::uint64_t> arguments, Body&& body) {
  return detail::call<kName, true, CUresult>(arguments, body);
}

// Leaves the host's caches as the driver would, and adds the time-stamp-counter ticks of its
// lifetime to simulator_ticks. For calls that do real work under a lock.
class TickScope {
 public:
  explicit TickScope(ThreadState& thread) : thread_(thread), begin_ticks_(__rdtsc()) {}
  ~TickScope() {
    if (thread_.displaced_bytes != 0) {
      thread_.host_caches.displace(std::exchange(thread_.displaced_bytes, 0));
    }
    thread_.clock.simulator_ticks += __rdtsc() - begin_ticks_;
  }
  TickScope(const TickScope&) = delete;
  TickScope& operator=(const TickScope&) = delete;

 private:
  ThreadState& thread_;
  std::uint64_t begin_ticks_;
};

// A pointer or handle as a number, for the log.
template <class T>
[[nodiscard]] inline std::uint64_t number(T* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}
[[nodiscard]] constexpr std::uint64_t number(CUdeviceptr address) { return address; }

}  // namespace simcuda
