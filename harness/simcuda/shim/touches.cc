// See touches.h.
#include "harness/simcuda/shim/touches.h"

#include <atomic>
#include <mutex>

#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

struct Watcher {
  std::mutex mutex;
  SimcuTouch touch = nullptr;
  void* context = nullptr;
  std::atomic<bool> watches = false;  // nobody takes the lock where nobody watches
};
Watcher& watcher() { return made_once<Watcher>(); }

}  // namespace

void watch_touches(SimcuTouch touch, void* context) {
  const std::lock_guard lock(watcher().mutex);
  watcher().touch = touch;
  watcher().context = context;
  watcher().watches = touch != nullptr;
}

void tell_touch(const void* device_pointer, std::uint64_t size_bytes) {
  if (!watcher().watches.load(std::memory_order_relaxed)) return;
  SimcuTouch touch = nullptr;
  void* context = nullptr;
  {
    const std::lock_guard lock(watcher().mutex);
    touch = watcher().touch;
    context = watcher().context;
  }
  if (touch != nullptr) touch(device_pointer, size_bytes, context);
}

}  // namespace simcuda
