// Modelled driver time of an allocator's calls, step by step: a backend in front of another one. It
// reads the simulator's clock, which real time does not enter. Calls flow through; sums flow out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "allocators/backend/forwarding_backend.h"
#include "base/step_times.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/trace_compiler.h"
#include "harness/simcuda/simcu.h"

namespace allocmark {

class DriverTimeBackend final : public ForwardingBackend {
 public:
  DriverTimeBackend(Backend& inner, const SimcuThreadClock& clock)
      : ForwardingBackend(inner), clock_(clock) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  void trim() override;

  // A step begins, and the one before it ends. What comes before the first mark is no step.
  void mark();
  // The last step ends; of a trace without marks, the only one.
  void end_pass();
  [[nodiscard]] double step_ns_median() const;
  [[nodiscard]] double step_calls_median() const { return static_cast<double>(calls_.median()); }
  [[nodiscard]] double total_ns() const { return static_cast<double>(total_ns_); }

 private:
  class Span;

  const SimcuThreadClock& clock_;
  static constexpr std::size_t kStepCountMax = 10'000'000;
  std::uint64_t step_ns_ = 0, total_ns_ = 0;
  bool in_step_ = false;
  std::uint64_t step_calls_ = 0;  // of the allocator, in this step
  StepTimes steps_{kStepCountMax}, calls_{kStepCountMax};
};

// Runs the steps, and ends a step of `backend` at each mark of one.
void run_by_steps(std::span<const ReplayStep> steps, Replayer* replayer,
                  DriverTimeBackend* backend);

}  // namespace allocmark
