// Contexts of the driver: which exist, and which are current on a thread. In: handles. Out: the
// context's device. A context owns nothing here: memory and streams are the device's.
#pragma once

#include <atomic>
#include <cstdint>

#include "harness/simcuda/shim/call.h"

namespace simcuda {

struct SimContext {
  int device = 0;
  bool is_primary = false;
  std::atomic<bool> live = false;
  std::atomic<unsigned> flags = 0;
  std::atomic<unsigned long long> id = 0;       // never used twice
  std::atomic<std::uint64_t> retain_count = 0;  // of a primary one, by cuDevicePrimaryCtxRetain
  std::atomic<bool> used_by_runtime = false;    // primary ones only
};

// Null where the handle is none of ours, or stale.
[[nodiscard]] SimContext* resolve_context(CUcontext context);
// The driver's copies and peers are named by contexts. Negative where that is none.
[[nodiscard]] inline int device_of(CUcontext context) {
  const SimContext* const found = resolve_context(context);
  return found == nullptr ? -1 : found->device;
}
// The primary context of a device that exists.
[[nodiscard]] SimContext& primary_context(int device);
// Replaces the thread's current context; null takes it away and leaves the one below.
void set_current_context(ThreadState& thread, CUcontext context);
// Nobody holds the primary context any more. It stays the current one of threads.
void forget_primary_context(int device);

}  // namespace simcuda
