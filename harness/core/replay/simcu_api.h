// simcuda's control functions, looked up once; all null where the real CUDA runtime is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/simcuda/simcu.h"

namespace allocmark {

struct SimcuApi {
  bool present = false;
  decltype(&simcu_thread_clock) thread_clock = nullptr;
  decltype(&simcu_launch) launch = nullptr;
  decltype(&simcu_enqueue) enqueue = nullptr;
  decltype(&simcu_pass_time) pass_time = nullptr;
  decltype(&simcu_stream_end) stream_end = nullptr;
  decltype(&simcu_device_end) device_end = nullptr;
  decltype(&simcu_view) view = nullptr;
  decltype(&simcu_used_bytes) used_bytes = nullptr;
  decltype(&simcu_take_memory_extremes) take_memory_extremes = nullptr;
  decltype(&simcu_shared_host) shared_host = nullptr;
  decltype(&simcu_hold_host) hold_host = nullptr;
  decltype(&simcu_restart_host) restart_host = nullptr;
  decltype(&simcu_last_message) last_message = nullptr;
  decltype(&simcu_call_count) call_count = nullptr;
  decltype(&simcu_order_begin) order_begin = nullptr;
  decltype(&simcu_order_end) order_end = nullptr;
  decltype(&simcu_order_take) order_take = nullptr;
  decltype(&simcu_order_give_back) order_give_back = nullptr;
  decltype(&simcu_thread_calls) thread_calls = nullptr;
  decltype(&simcu_call_name) call_name = nullptr;
  decltype(&simcu_allocation_of) allocation_of = nullptr;
  decltype(&simcu_watch_touches) watch_touches = nullptr;
  decltype(&simcu_pinned_bytes) pinned_bytes = nullptr;
  decltype(&simcu_pinned_range) pinned_range = nullptr;

  // Whether the range is memory of that GPU.
  [[nodiscard]] bool holds(int device, const void* pointer, std::uint64_t size_bytes) const;

  // Whether the range is pinned memory of the host.
  [[nodiscard]] bool pins(const void* pointer, std::uint64_t size_bytes) const;

  // The host whose memory is the current device's, too; nothing where there is none.
  [[nodiscard]] std::optional<SimcuSharedHost> host() const;

  // Throws EnvironmentError where a simcuda is loaded that lacks one of these functions.
  [[nodiscard]] static SimcuApi find();
};

// Calls of functions that simcuda lacks, by this process so far; none on a real GPU.
struct UnimplementedCalls {
  std::uint64_t count = 0;
  std::string names;  // comma-separated
};
[[nodiscard]] UnimplementedCalls unimplemented_calls();

}  // namespace allocmark
