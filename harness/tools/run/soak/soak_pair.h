// Two soaks of the same program, one on each side of an A/B run: whether the second grows where the
// first does not, or faster. Drifts flow in; a verdict for each measure flows out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tools/run/soak/soak_text.h"

namespace allocmark {

struct SoakPair {
  SoakReport base, now;
};

enum class GrowthVerdict : std::uint8_t { Same, Worse, Better, Unknown, NotCompared };

// By measure, in the order of drifts. Worse: the second side grows, and the first does not or has
// an interval of its slope below that of the second. Better: the other way round. Times are not
// compared.
[[nodiscard]] std::vector<GrowthVerdict> compare_growth(const SoakPair& pair);
// The second side grows more, or ended early where the first one did not.
[[nodiscard]] bool is_worse(const SoakPair& pair);

[[nodiscard]] std::string render_soak_pair(const SoakPair& pair);
[[nodiscard]] std::string to_json(const std::vector<SoakPair>& pairs);

}  // namespace allocmark
