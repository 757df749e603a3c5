// Rounds of a test until its time has gone by: one at least. On a simulated GPU the time is
// virtual, and a few rounds are spread over it, since more would say the same.
#pragma once

#include <chrono>
#include <cstdint>

#include "harness/core/replay/simcu_api.h"

namespace allocmark::qualify {

class Rounds {
 public:
  static constexpr std::uint64_t kSimulatedCountMax = 16;

  explicit Rounds(double seconds);
  // True for the first round, and as long as there is time. Throws EnvironmentError where a
  // simulated GPU cannot idle until the next round, since it is lost.
  [[nodiscard]] bool next();
  // Rounds begun.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // Of real time.
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] double virtual_s() const;

  double seconds_;
  SimcuApi simcu_;
  std::uint64_t begin_modelled_ns_ = 0;
  Clock::time_point begin_ = Clock::now();
  std::uint64_t count_ = 0;
};

}  // namespace allocmark::qualify
