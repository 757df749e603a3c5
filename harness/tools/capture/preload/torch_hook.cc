#include "harness/tools/capture/preload/torch_hook.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "harness/tools/capture/preload/capture.h"
#include "harness/tools/capture/preload/recorder.h"

namespace allocmark_capture {
namespace {

enum class Torch : int {
  Unwanted,   // no plugin was named
  Awaited,    // not there yet
  Attaching,  // a thread is at it
  Heard,
  Refused,  // it has no history: what it asks of the runtime is recorded instead
};

constinit std::atomic<Torch> state = Torch::Unwanted;
// Made before the constructors of this library run, as the rest here is.
constinit const char* plugin_path = nullptr;
// Guarded by the recorder's lock: entries that came while the live blocks were still being told.
constinit bool starting = false;
constinit std::vector<AllocmarkCaptureEntry> early_entries;
constinit std::vector<AllocmarkCaptureEntry> live_entries;

MemoryRequest request_of(const AllocmarkCaptureEntry& entry) {
  return {.address = entry.address, .size_bytes = entry.size_bytes, .stream = entry.stream};
}

// A free that is not completed at once waits for another stream.
void note_free(DeviceTrace& trace, const AllocmarkCaptureEntry& entry) {
  std::uint64_t& freed = trace.freed_address();
  const bool completes = entry.action == kAllocmarkCaptureFreeCompleted && entry.address == freed;
  if (freed != 0 && !completes) ++trace.counts().held;
  const bool begins = entry.action == kAllocmarkCaptureFreeRequested && trace.knows(entry.address);
  freed = begins ? entry.address : 0;
}

PoolKey pool_of(const AllocmarkCaptureEntry& entry) { return {entry.pool[0], entry.pool[1]}; }

void record(DeviceTrace& trace, const AllocmarkCaptureEntry& entry) {
  note_free(trace, entry);
  if (entry.action == kAllocmarkCaptureAlloc) {
    if (entry.knows_pool != 0 && pool_of(entry) != trace.pool_begun_last()) ++trace.counts().astray;
    trace.allocated(request_of(entry));
  } else if (entry.action == kAllocmarkCaptureFreeRequested) {
    (void)trace.freed(entry.address);
  } else if (entry.action == kAllocmarkCaptureOutOfMemory) {
    trace.failed(request_of(entry));
  }
}

void empty(DeviceTrace& trace, const PoolKey& key) {
  key == PoolKey{} ? trace.trimmed() : trace.pool_trimmed(key);
}

void note_pool(DeviceTrace& trace, const AllocmarkCapturePoolCall& call, const PoolKey& key) {
  switch (call.action) {
    case kAllocmarkCapturePoolCreate:
      return trace.pool_created(key);
    case kAllocmarkCapturePoolBegin:
      return trace.pool_begun(key);
    case kAllocmarkCapturePoolEnd:
      return trace.pool_ended(key);
    case kAllocmarkCapturePoolRelease:
      return trace.pool_released(key);
    case kAllocmarkCapturePoolUseOnOom:
      return trace.pool_on_oom(key, call.is_on != 0);
    case kAllocmarkCapturePoolNoSplit:
      return trace.pool_never_splits(key);
    default:
      return;
  }
}

void hear(const AllocmarkCaptureEntry* entry) {
  const LockedRecorder recorder;
  if (starting) {
    early_entries.push_back(*entry);
  } else if (DeviceTrace* const trace = recorder->device(entry->device); trace != nullptr) {
    record(*trace, *entry);
  }
}

// A call that comes while the live blocks are still being told is before the recording.
void hear_pool(const AllocmarkCapturePoolCall* call) {
  const LockedRecorder recorder;
  if (starting) return;
  const PoolKey key = {call->pool[0], call->pool[1]};
  if (call->action == kAllocmarkCapturePoolEmpty) {
    recorder->for_each([&](DeviceTrace& trace) { empty(trace, key); });
  } else if (DeviceTrace* const trace = recorder->device(call->device); trace != nullptr) {
    note_pool(*trace, *call, key);
  }
}

void hear_live(const AllocmarkCaptureEntry* entry) {
  const LockedRecorder recorder;
  live_entries.push_back(*entry);
}

// A pool that has blocks already was made before the recording.
void tell_live(DeviceTrace& trace, const AllocmarkCaptureEntry& entry) {
  const PoolKey key = pool_of(entry);
  if (key == PoolKey{}) return trace.allocated(request_of(entry));
  if (!trace.has_pool(key)) trace.pool_created(key);
  trace.pool_begun(key);
  trace.allocated(request_of(entry));
  trace.pool_ended(key);
  trace.pool_released(key);
}

// Blocks that were live before the first entry: those whose first entry is their free, and those
// that are live and in no entry. They come first.
void tell_what_was_before(const LockedRecorder& recorder) {
  std::unordered_set<std::uint64_t> mentioned;
  std::vector<AllocmarkCaptureEntry> before;
  for (const AllocmarkCaptureEntry& entry : early_entries) {
    if (entry.action != kAllocmarkCaptureAlloc && entry.action != kAllocmarkCaptureFreeRequested)
      continue;
    if (mentioned.insert(entry.address).second && entry.action == kAllocmarkCaptureFreeRequested)
      before.push_back(entry);
  }
  for (const AllocmarkCaptureEntry& entry : live_entries) {
    if (!mentioned.contains(entry.address)) before.push_back(entry);
  }
  for (const AllocmarkCaptureEntry& entry : before) {
    if (DeviceTrace* const trace = recorder->device(entry.device); trace != nullptr)
      tell_live(*trace, entry);
  }
  for (const AllocmarkCaptureEntry& entry : early_entries) {
    if (DeviceTrace* const trace = recorder->device(entry.device); trace != nullptr)
      record(*trace, entry);
  }
  early_entries.clear();
  live_entries.clear();
  starting = false;
}

constexpr AllocmarkCaptureSink kSink = {.entry = hear, .live = hear_live, .pool = hear_pool};

Torch refuse(const std::string& reason) {
  say(reason + "; what PyTorch asks of the CUDA runtime is recorded instead");
  return Torch::Refused;
}

bool has_torch() {
  void* const c10 = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (c10 != nullptr) dlclose(c10);
  return c10 != nullptr;
}

Torch attach() {
  if (!has_torch()) return Torch::Awaited;
  void* const plugin = dlopen(plugin_path, RTLD_NOW);
  if (plugin == nullptr)
    return refuse(std::string("the plugin for PyTorch cannot be loaded: ") + dlerror());
  const auto begin = reinterpret_cast<decltype(&allocmark_torch_capture_attach_2)>(
      dlsym(plugin, "allocmark_torch_capture_attach_2"));
  if (begin == nullptr) {
    return refuse(std::string(plugin_path) +
                  " is no plugin for PyTorch of this allocmark: build it again with "
                  "build_torch_capture.sh");
  }
  {
    const LockedRecorder recorder;
    starting = true;
  }
  const int answer = begin(&kSink);
  const LockedRecorder recorder;
  if (answer == kAllocmarkCaptureNotReady) {
    starting = false;
    return Torch::Awaited;
  }
  tell_what_was_before(recorder);
  if (answer == kAllocmarkCaptureOtherBackend)
    return refuse("PyTorch runs with another allocator than its native one");
  if (answer == kAllocmarkCaptureWithoutPools)
    say("calls of private pools and of empty_cache cannot be heard in this process");
  return Torch::Heard;
}

}  // namespace

void want_torch(const char* plugin) {
  if (plugin == nullptr || *plugin == '\0') return;
  plugin_path = strdup(plugin);
  state = Torch::Awaited;
}

bool records_runtime() {
  const Torch now = state.load(std::memory_order_relaxed);
  return now == Torch::Unwanted || now == Torch::Refused;
}

bool hears_torch() { return state.load(std::memory_order_relaxed) == Torch::Heard; }

void look_for_torch() {
  Torch expected = Torch::Awaited;
  if (state.load(std::memory_order_relaxed) != expected ||
      !state.compare_exchange_strong(expected, Torch::Attaching)) {
    return;
  }
  state = attach();
}

void end_torch() {
  const LockedRecorder recorder;
  if (state == Torch::Unwanted && recorder->has_files() && has_torch()) {
    say("this is PyTorch: recorded are the segments that its allocator takes, and not what the "
        "program asks of it; for that, name a plugin with --torch (build_torch_capture.sh makes "
        "it)");
  }
}

}  // namespace allocmark_capture
