// Whether one of two things has more of something than the other where both were counted in turn
// and their counts are random: the sign-flip test, which is exact whatever the counts'
// distribution. Flows in: a difference per round; flows out: p-values. Neither times nor checks
// allocators.
#pragma once

#include <cstddef>
#include <span>

namespace allocmark {

// Up to this many rounds every way to flip the signs is tried; beyond it, 100,000 drawn ones.
inline constexpr std::size_t kSignFlipExactMax = 16;

// One-sided: the share of all ways to swap the two sides within rounds that gives a sum of
// differences at least as large as the one seen. If the sides do not differ, every way is as
// likely. Nothing else is assumed but that rounds are independent. 1 for no differences.
[[nodiscard]] double sign_flip_p_value(std::span<const double> differences);

}  // namespace allocmark
