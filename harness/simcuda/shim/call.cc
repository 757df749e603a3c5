#include "harness/simcuda/shim/call.h"

#include <cstdio>
#include <cstdlib>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/fault_plan.h"
#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/one_of.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {

thread_local constinit ThreadState* current_thread_state = nullptr;
std::atomic<std::uint32_t> slow_reasons{kNotStarted | kNoInit};

namespace {

// All threads' states, and the counts of those that ended. Reached from static initialisers of
// other libraries, so made on first use and never destroyed.
struct Registry {
  std::mutex mutex;
  std::list<ThreadState*> threads;
  std::array<std::uint64_t, kApiCountMax> ended_calls{};
  std::uint32_t thread_count = 0;
};
Registry& registry() { return made_once<Registry>(); }

ApiRecord* api_list = nullptr;
std::size_t api_count_so_far = 0;
std::atomic<int> sticky_error{0};

// Of a thread whose state has ended: destructors of static objects make calls after that.
struct EndedThread {
  bool has_ended = false;
  int device = 0;
  CUcontext context = nullptr;
};
thread_local constinit EndedThread ended_thread;

// Folds a thread's counters into the totals when it ends.
struct ThreadStateOwner {
  std::unique_ptr<ThreadState> state;
  ~ThreadStateOwner() {
    if (state == nullptr) return;
    const HiddenFromSanitizer hidden;
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    for (std::size_t i = 0; i < kApiCountMax; ++i) {
      all.ended_calls[i] += state->calls[i].load(std::memory_order_relaxed);
    }
    all.threads.remove(state.get());
    ended_thread = {.has_ended = true, .device = state->device, .context = state->context};
    current_thread_state = nullptr;
  }
};
thread_local ThreadStateOwner thread_state_owner;

struct CallLog {
  std::mutex mutex;
  std::FILE* file = nullptr;
};
CallLog& call_log() { return made_once<CallLog>(); }

}  // namespace

ApiRecord::ApiRecord(const char* api_name)
    : name(api_name), index(api_count_so_far++), next(api_list) {
  if (index >= kApiCountMax) {
    std::fprintf(stderr, "simcuda: more than %zu functions; raise kApiCountMax\n", kApiCountMax);
    std::abort();
  }
  api_list = this;
}

ApiRecord* first_api() { return api_list; }
const ApiRecord* find_api(std::string_view name) {
  const ApiRecord* record = api_list;
  while (record != nullptr && name != record->name) record = record->next;
  return record;
}
std::size_t api_count() { return api_count_so_far; }

ThreadState& make_thread_state() {
  const HiddenFromSanitizer hidden;
  auto state = std::make_unique<ThreadState>();
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    state->ordinal = all.thread_count++;
    all.threads.push_back(state.get());
  }
  current_thread_state = state.get();
  if (ended_thread.has_ended) {  // nobody is left to end this one
    state->device = ended_thread.device;
    state->context = ended_thread.context;
    return *state.release();
  }
  thread_state_owner.state = std::move(state);
  return *current_thread_state;
}

std::uint64_t call_count(const ApiRecord& api) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::uint64_t count = all.ended_calls[api.index];
  for (const ThreadState* thread : all.threads) {
    count += thread->calls[api.index].load(std::memory_order_relaxed);
  }
  return count;
}

void hide_call(ThreadState& thread) {
  hide_from_sanitizer();
  ++thread.promised.hidden_depth;
}

void show_call(ThreadState& thread) {
  PromisedOrder& promised = thread.promised;
  show_to_sanitizer();
  if (--promised.hidden_depth != 0) return;
  for (const void* key : promised.after) acquire(const_cast<void*>(key));
  for (const PromisedOrder::HostBytes& bytes : promised.host_bytes) {
    (bytes.is_written ? __tsan_write_range : __tsan_read_range)(const_cast<void*>(bytes.begin),
                                                                bytes.size_bytes);
  }
  for (const void* key : promised.before) release(const_cast<void*>(key));
  promised.after.clear();
  promised.before.clear();
  promised.host_bytes.clear();
}

void promise_before(ThreadState& thread, const void* key) {
  if (thread.promised.hidden_depth != 0) thread.promised.before.push_back(key);
}

void promise_after(ThreadState& thread, const void* key) {
  if (thread.promised.hidden_depth != 0) thread.promised.after.push_back(key);
}

bool is_sticky(int error) {
  return is_one_of(error, cudaErrorIllegalAddress, cudaErrorLaunchTimeout, cudaErrorAssert,
                   cudaErrorHardwareStackError, cudaErrorIllegalInstruction,
                   cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace, cudaErrorInvalidPc,
                   cudaErrorLaunchFailure, cudaErrorECCUncorrectable);
}

void set_sticky_error(int error) {
  sticky_error.store(error);
  slow_reasons.fetch_or(kSticky);
}

cudaError_t explain(ThreadState& thread, cudaError_t error, std::string message) {
  thread.last_message = std::move(message);
  return error;
}

int begin_call_slow(const ApiRecord& api, ThreadState& thread, bool is_driver_api,
                    std::initializer_list<std::uint64_t> arguments) {
  start_if_needed();
  const std::uint32_t slow = slow_reasons.load();
  if ((slow & kStartFailed) != 0) {
    thread.last_message = start_error();
    return is_driver_api ? static_cast<int>(CUDA_ERROR_NOT_INITIALIZED)
                         : static_cast<int>(cudaErrorInitializationError);
  }
  if ((slow & kNoInit) != 0) {
    if (is_driver_api && driver_needs_init(api.name)) {
      thread.last_message = "cuInit has not been called";
      return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (!is_driver_api) {
      see_devices();
      slow_reasons.fetch_and(~static_cast<std::uint32_t>(kNoInit));
    }
  }
  if ((slow & kSticky) != 0) {
    thread.last_message = "an earlier error broke the context; only a new process helps";
    return sticky_error.load();
  }
  if ((slow & kGpuFaults) != 0) {
    if (const int error = next_gpu_fault(node_index(thread.device), api.name); error != 0) {
      thread.last_message = "the GPU has fallen off the bus (SIMCUDA_GPU_FAULTS)";
      return error;
    }
  }
  if ((slow & kFaults) != 0) {
    if (const int error = next_fault(api.name); error != 0) {
      thread.last_message = std::string("fault injected into ") + api.name;
      if (is_sticky(error)) set_sticky_error(error);
      return error;
    }
  }
  return (slow & kCapturing) != 0 ? forbid_in_capture(api, thread, arguments) : 0;
}

void stretch_call(ThreadState& thread, std::uint64_t began_ns) {
  thread.clock.modelled_ns =
      began_ns + stretched_ns(node_index(thread.device), thread.clock.modelled_ns - began_ns);
}

int set_call_log(const char* path) {
  CallLog& log = call_log();
  const std::lock_guard lock(log.mutex);
  if (log.file != nullptr) {
    std::fclose(log.file);
    log.file = nullptr;
    slow_reasons.fetch_and(~static_cast<std::uint32_t>(kLog));
  }
  if (path == nullptr) return cudaSuccess;
  log.file = std::fopen(path, "w");
  if (log.file == nullptr) {
    return explain(this_thread(), cudaErrorInvalidValue,
                   std::string("call log: cannot write ") + path);
  }
  std::fputs("api,arguments,result,modelled_ns\n", log.file);
  slow_reasons.fetch_or(kLog);
  return cudaSuccess;
}

void log_call(const ApiRecord& api, std::initializer_list<std::uint64_t> arguments, int result,
              std::uint64_t modelled_ns) {
  CallLog& log = call_log();
  const std::lock_guard lock(log.mutex);
  if (log.file == nullptr) return;
  std::fprintf(log.file, "%s,", api.name);
  const char* separator = "";
  for (const std::uint64_t argument : arguments) {
    std::fprintf(log.file, "%s0x%llx", separator, static_cast<unsigned long long>(argument));
    separator = " ";
  }
  std::fprintf(log.file, ",%d,%llu\n", result, static_cast<unsigned long long>(modelled_ns));
  std::fflush(log.file);
}

}  // namespace simcuda
