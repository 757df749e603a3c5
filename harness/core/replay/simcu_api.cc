// Look-up of simcuda's control functions.
#include "harness/core/replay/simcu_api.h"

#include <dlfcn.h>

#include "base/error.h"

namespace allocmark {

namespace {

template <typename Function>
void look_up(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function != nullptr) return;
  throw EnvironmentError(ErrorText{.what = "the simulated CUDA runtime lacks a function",
                                   .where = "libcudart (simcuda)",
                                   .wanted = name,
                                   .next = "build allocmark and simcuda from the same sources"});
}

SimcuApi all_functions() {
  SimcuApi api;
  look_up("simcu_thread_clock", api.thread_clock);
  look_up("simcu_launch", api.launch);
  look_up("simcu_enqueue", api.enqueue);
  look_up("simcu_pass_time", api.pass_time);
  look_up("simcu_stream_end", api.stream_end);
  look_up("simcu_device_end", api.device_end);
  look_up("simcu_view", api.view);
  look_up("simcu_used_bytes", api.used_bytes);
  look_up("simcu_take_memory_extremes", api.take_memory_extremes);
  look_up("simcu_shared_host", api.shared_host);
  look_up("simcu_hold_host", api.hold_host);
  look_up("simcu_restart_host", api.restart_host);
  look_up("simcu_last_message", api.last_message);
  look_up("simcu_call_count", api.call_count);
  look_up("simcu_order_begin", api.order_begin);
  look_up("simcu_order_end", api.order_end);
  look_up("simcu_order_take", api.order_take);
  look_up("simcu_order_give_back", api.order_give_back);
  look_up("simcu_thread_calls", api.thread_calls);
  look_up("simcu_call_name", api.call_name);
  look_up("simcu_allocation_of", api.allocation_of);
  look_up("simcu_watch_touches", api.watch_touches);
  look_up("simcu_pinned_bytes", api.pinned_bytes);
  look_up("simcu_pinned_range", api.pinned_range);
  api.present = true;
  return api;
}

}  // namespace

SimcuApi SimcuApi::find() {
  if (dlsym(RTLD_DEFAULT, "simcu_present") == nullptr) return {};
  static const SimcuApi api = all_functions();  // who times calls asks again and again
  return api;
}

bool SimcuApi::holds(int device, const void* pointer, std::uint64_t size_bytes) const {
  std::uint64_t base = 0;
  std::uint64_t range_bytes = 0;
  int found = 0;
  return view(pointer, size_bytes) != nullptr &&
         allocation_of(pointer, &base, &range_bytes, &found) == 0 && found == device;
}

bool SimcuApi::pins(const void* pointer, std::uint64_t size_bytes) const {
  std::uint64_t base = 0;
  std::uint64_t range_bytes = 0;
  if (pinned_range(pointer, &base, &range_bytes) != 0) return false;
  const std::uint64_t offset_bytes = reinterpret_cast<std::uintptr_t>(pointer) - base;
  return size_bytes <= range_bytes - offset_bytes;
}

std::optional<SimcuSharedHost> SimcuApi::host() const {
  SimcuSharedHost host{};
  if (!present || shared_host(&host) == 0) return std::nullopt;
  return host;
}

UnimplementedCalls unimplemented_calls() {
  if (dlsym(RTLD_DEFAULT, "simcu_present") == nullptr) return {};
  decltype(&simcu_unimplemented_count) count = nullptr;
  decltype(&simcu_unimplemented_names) names = nullptr;
  look_up("simcu_unimplemented_count", count);
  look_up("simcu_unimplemented_names", names);
  return {.count = count(), .names = names()};
}

}  // namespace allocmark
