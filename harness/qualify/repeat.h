// Rounds of a test until its time has gone by: one at least.
#pragma once

#include <chrono>
#include <cstdint>

namespace allocmark::qualify {

class Rounds {
 public:
  explicit Rounds(double seconds) : seconds_(seconds), begin_(Clock::now()) {}
  // True for the first round, and as long as there is time.
  [[nodiscard]] bool next() { return count_++ == 0 || elapsed_s() < seconds_; }
  // Rounds begun.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  Clock::time_point begin_;
  std::uint64_t count_ = 0;
};

}  // namespace allocmark::qualify
