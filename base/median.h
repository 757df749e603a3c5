// The middle of numbers that were measured.
#pragma once

#include <cstdint>
#include <vector>

namespace allocmark {

// Of a copy; of two middle values their mean. 0 for none.
[[nodiscard]] double median(std::vector<double> values);

// By nearest rank: of two middle values the lower, so that it is one that was measured. 0 for none.
[[nodiscard]] std::uint64_t median_low(std::vector<std::uint64_t> values);

}  // namespace allocmark
