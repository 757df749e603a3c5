// What sets one rank apart from the others, in sentences: who failed first, who waits for it, whose
// memory is smallest, who takes most, whose live bytes grow, for whom the others wait.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tools/ranks/ranks.h"

namespace allocmark {

enum class FindingKind : std::uint8_t { Failed, Waits, Smaller, Most, Grows, Late };

struct RankFinding {
  FindingKind kind = FindingKind::Failed;
  std::uint32_t rank = 0;  // its number in the job
  std::string text;        // one line
};

// "failed", "waits", "smaller", "most", "grows", "late".
[[nodiscard]] const char* finding_name(FindingKind kind);

// A difference is told from here on (README.md explains each).
inline constexpr double kMostRatioMin = 1.10;  // the most device memory over the least
inline constexpr std::uint64_t kGrowthBytesMin = std::uint64_t{1}
                                                 << 20;  // a step, more than others
inline constexpr double kLateShareMin = 0.05;  // of the job's time that all others wait for it

// In the order of the kinds. Ranks that wait for one that failed share a line.
[[nodiscard]] std::vector<RankFinding> findings_of(const std::vector<RankRow>& rows);

}  // namespace allocmark
