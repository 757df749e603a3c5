// What the calls of a backend cost in the checked pass: the host time of the first of them, in a
// process that has called it never before, and how often it called the driver, by function. Flows
// in: each call, as a function; flows out: sums, and each call's host time for whoever follows it.
// Times coarsely: the checks around the calls leave cold caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/measure/clock.h"
#include "harness/core/measure/usual_calls.h"
#include "harness/core/replay/simcu_api.h"
#include "results/schema.h"

namespace allocmark {

class BackendCalls {
 public:
  // `clock` null: nothing is timed. `usual` null: only the first calls are. Both outlive this
  // object.
  BackendCalls(const SimcuApi& simcu, const TickClock* clock, UsualCalls* usual);

  // Makes the call.
  template <typename Call>
  auto make(Call&& call) {
    struct Around {
      BackendCalls& calls;
      explicit Around(BackendCalls& all) : calls(all) { calls.begin(); }
      ~Around() { calls.end(); }
    } around(*this);
    return std::forward<Call>(call)();
  }

  [[nodiscard]] std::uint64_t cold_ticks() const { return cold_ticks_; }
  // Whether the last call asked the driver for device memory; nothing where that is not counted.
  [[nodiscard]] std::optional<bool> asked_for_memory() const;
  // By function, in alphabetical order; questions that ask the driver for nothing are left out.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> driver_calls() const;

 private:
  void begin();
  void end();
  [[nodiscard]] bool is_timed() const {
    return clock_ != nullptr && (usual_ != nullptr || call_count_ < kColdCallCount);
  }

  SimcuApi simcu_;
  const TickClock* clock_;
  UsualCalls* usual_;
  std::vector<std::uint64_t> counts_before_, counts_now_, counts_;  // by simcuda's index
  std::vector<std::size_t> called_;  // of those, what the last call called
  std::uint64_t call_count_ = 0;
  std::uint64_t begin_ticks_ = 0, simulator_ticks_ = 0, cold_ticks_ = 0;
};

}  // namespace allocmark
