// Rounds of a test until its time has gone by: one at least. On a simulated GPU the time is
// virtual, and a few rounds are spread over it, since more would say the same.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>

#include "allocators/cuda/cuda_check.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark::qualify {

class Rounds {
 public:
  static constexpr std::uint64_t kSimulatedCountMax = 16;

  explicit Rounds(double seconds) : seconds_(seconds) {
    if (seconds <= 0) return;
    simcu_ = SimcuApi::find();
    if (simcu_.present) begin_modelled_ns_ = simcu_.thread_clock()->modelled_ns;
  }
  // True for the first round, and as long as there is time. Throws EnvironmentError where a
  // simulated GPU cannot idle until the next round, since it is lost.
  [[nodiscard]] bool next() {
    if (count_++ == 0) return true;
    if (!simcu_.present) return elapsed_s() < seconds_;
    const double due_s =
        seconds_ * static_cast<double>(count_ - 1) / static_cast<double>(kSimulatedCountMax);
    if (const double left_s = due_s - virtual_s(); left_s > 0) {
      (void)simcu_.launch(nullptr, static_cast<std::uint64_t>(left_s * kNsPerS) + 1);
      ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
    }
    return virtual_s() < seconds_;
  }

  // Rounds begun.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // Of real time.
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kNsPerS = 1e9;
  [[nodiscard]] double virtual_s() const {
    return static_cast<double>(simcu_.thread_clock()->modelled_ns - begin_modelled_ns_) / kNsPerS;
  }

  double seconds_;
  SimcuApi simcu_;
  std::uint64_t begin_modelled_ns_ = 0;
  Clock::time_point begin_ = Clock::now();
  std::uint64_t count_ = 0;
};

}  // namespace allocmark::qualify
