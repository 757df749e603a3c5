// Modelled driver time of an allocator's calls, step by step: a backend in front of another one. It
// reads the simulator's clock, which real time does not enter. Calls flow through; sums flow out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocators/backend/forwarding_backend.h"
#include "base/step_times.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/trace_compiler.h"
#include "harness/core/search/driver_tape.h"
#include "harness/simcuda/simcu.h"

namespace allocmark {

// The steps of a pass, from what their calls take.
class StepSums {
 public:
  void add(std::uint64_t driver_ns, std::uint64_t call_count) {
    step_ns_ += driver_ns;
    step_calls_ += call_count;
  }
  // A step begins, and the one before it ends. What comes before the first mark is no step.
  void mark();
  // The last step ends; of a trace without marks, the only one.
  void end_pass();
  // Of the allocator, in this step.
  [[nodiscard]] std::uint64_t step_calls() const { return step_calls_; }
  [[nodiscard]] double step_ns_median() const { return static_cast<double>(steps_.median()); }
  [[nodiscard]] double step_calls_median() const { return static_cast<double>(calls_.median()); }
  [[nodiscard]] double total_ns() const { return static_cast<double>(total_ns_); }

 private:
  static constexpr std::size_t kStepCountMax = 10'000'000;
  std::uint64_t step_ns_ = 0, total_ns_ = 0;
  bool in_step_ = false;
  std::uint64_t step_calls_ = 0;
  StepTimes steps_{kStepCountMax}, calls_{kStepCountMax};
};

// Which calls on a tape belong to which step.
struct TapedSteps {
  struct Range {
    std::size_t begin = 0, end = 0;  // calls that one call of the allocator made
  };
  struct Step {
    std::size_t range_end = 0;          // in ranges
    std::uint64_t allocator_calls = 0;  // that it had
  };
  std::vector<Range> ranges;
  std::vector<Step> steps;  // the last one ends the pass

  // The pass as the tape has it now.
  [[nodiscard]] StepSums sums(const DriverTape& tape) const;
};

class DriverTimeBackend final : public ForwardingBackend {
 public:
  DriverTimeBackend(Backend& inner, const SimcuThreadClock& clock)
      : ForwardingBackend(inner), clock_(clock), tape_(nullptr), taped_(nullptr) {}
  // The allocator asks its device through the tape; `taped`, where it is not null, gets its steps.
  DriverTimeBackend(Backend& inner, const DriverTape& tape, TapedSteps* taped)
      : ForwardingBackend(inner), clock_(tape.clock()), tape_(&tape), taped_(taped) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  void trim() override;

  // As StepSums has them.
  void mark();
  void end_pass();
  [[nodiscard]] const StepSums& sums() const { return sums_; }

 private:
  class Span;
  void note_step();

  const SimcuThreadClock& clock_;
  const DriverTape* tape_;
  TapedSteps* taped_;
  StepSums sums_;
};

// Runs the steps, and ends a step of `backend` at each mark of one.
void run_by_steps(std::span<const ReplayStep> steps, Replayer* replayer,
                  DriverTimeBackend* backend);

}  // namespace allocmark
