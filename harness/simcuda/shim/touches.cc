// See touches.h.
#include "harness/simcuda/shim/touches.h"

#include <atomic>
#include <mutex>

#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

struct TouchWatcher {
  std::mutex mutex;
  SimcuTouch touch = nullptr;
  void* context = nullptr;
  std::atomic<bool> watches = false;  // nobody takes the lock where nobody watches
};
TouchWatcher& touch_watcher() { return made_once<TouchWatcher>(); }

}  // namespace

void watch_touches(SimcuTouch touch, void* context) {
  const std::lock_guard lock(touch_watcher().mutex);
  touch_watcher().touch = touch;
  touch_watcher().context = context;
  touch_watcher().watches = touch != nullptr;
}

void tell_touch(const void* device_pointer, std::uint64_t size_bytes) {
  if (!touch_watcher().watches.load(std::memory_order_relaxed)) return;
  SimcuTouch touch = nullptr;
  void* context = nullptr;
  {
    const std::lock_guard lock(touch_watcher().mutex);
    touch = touch_watcher().touch;
    context = touch_watcher().context;
  }
  if (touch != nullptr) touch(device_pointer, size_bytes, context);
}

}  // namespace simcuda
