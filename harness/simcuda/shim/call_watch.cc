// See call_watch.h.
#include "harness/simcuda/shim/call_watch.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

struct CallWatcher {
  std::mutex mutex;
  std::condition_variable left;  // a thread has left the watch
  SimcuCallWatch watch = nullptr;
  void* context = nullptr;
  std::uint64_t inside_count = 0;  // threads in the watch now
};
CallWatcher& call_watcher() { return made_once<CallWatcher>(); }

thread_local bool is_inside = false;

}  // namespace

void watch_calls(SimcuCallWatch watch, void* context) {
  CallWatcher& all = call_watcher();
  std::unique_lock lock(all.mutex);
  all.watch = nullptr;
  all.left.wait(lock, [&] { return all.inside_count == 0; });
  all.watch = watch;
  all.context = context;
  if (watch != nullptr) {
    slow_reasons.fetch_or(kWatched);
  } else {
    slow_reasons.fetch_and(~static_cast<std::uint32_t>(kWatched));
  }
}

void tell_call(const ApiRecord& api, int result) {
  if (is_inside) return;
  CallWatcher& all = call_watcher();
  SimcuCallWatch watch = nullptr;
  void* context = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    watch = all.watch;
    context = all.context;
    if (watch == nullptr) return;
    ++all.inside_count;
  }
  is_inside = true;
  watch(api.name, result, context);
  is_inside = false;
  const std::lock_guard lock(all.mutex);
  --all.inside_count;
  all.left.notify_all();
}

}  // namespace simcuda
