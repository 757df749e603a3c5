// A share of trials with its uncertainty. Counts flow in; an interval flows out.
#pragma once

#include <cstdint>
#include <optional>

namespace allocmark {

// A share of trials and the interval that covers the true share with the stated confidence.
struct Proportion {
  double estimate = 0, low = 0, high = 0;  // 0..1
};

// Wilson's score interval (1927), two-sided; `confidence` in (0, 1). It stays within 0..1 and is of
// use at 0 of n and n of n, where the textbook interval has no width. Nothing for 0 trials or for
// more hits than trials.
[[nodiscard]] std::optional<Proportion> wilson_interval(std::uint64_t hit_count,
                                                        std::uint64_t trial_count,
                                                        double confidence = 0.95);

}  // namespace allocmark
