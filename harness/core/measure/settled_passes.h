// Times of steps and passes that do not follow the host's load, of passes that make the same calls.
// A pass flows in as parts of some calls in a row; a part that took longer in one pass than in
// another was disturbed, as behind a switch of tasks, which leaves cold caches. Flows out: each
// pass with the parts of the least disturbed passes, as measured here and scaled to another host.
// This file times nothing itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/core/measure/clock.h"
#include "harness/core/measure/host_scale.h"

namespace allocmark {

// The host time of a pass in parts, and the driver's by steps.
class PassParts {
 public:
  // Fewer calls make a part easier to compare and more to keep.
  static constexpr std::uint64_t kPartCallCount = 64;

  void add(std::uint64_t host_ticks, std::uint64_t driver_ns) {
    part_ticks_ += host_ticks;
    driver_ns_ += driver_ns;
    if (++call_count_ % kPartCallCount == 0) end_part();
  }
  // What came since the last mark is a step, or comes before the first one.
  void mark(bool ends_step);
  void clear();

  struct Span {
    std::size_t part_end = 0;  // of the parts; it begins where the one before it ends
    std::uint64_t call_count = 0, driver_ns = 0;
    bool is_step = false;
  };
  [[nodiscard]] const std::vector<std::uint64_t>& parts() const { return parts_; }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

 private:
  void end_part();

  std::vector<std::uint64_t> parts_;  // in ticks
  std::vector<Span> spans_;
  std::uint64_t part_ticks_ = 0, call_count_ = 0, driver_ns_ = 0;  // of what is not ended yet
};

// In ns. Of steps the median, as StepTimes has it; 0 without steps. Scaled ones are 0 where nothing
// is scaled.
struct SettledPass {
  double step_ns = 0, scaled_step_ns = 0;
  double total_ns = 0, scaled_total_ns = 0;
};
struct SettledPasses {
  std::vector<SettledPass> passes;
  double step_ns = 0, scaled_step_ns = 0;  // over the steps of all passes
};

struct SettleOptions {
  TickScale scale;
  HostScale host_scale = {.factor = 0};  // of all passes; factor 0: nothing is scaled
  std::size_t step_count_max = 0;
};

// A part takes a tenth more than in the least disturbed pass at most. Passes with other numbers of
// parts than the first one decided otherwise, and stay as they are.
[[nodiscard]] SettledPasses settle(std::span<const PassParts> passes, const SettleOptions& options);

}  // namespace allocmark
