// What a soak found, as text and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tools/run/soak/drift.h"
#include "harness/tools/run/soak/soak_file.h"

namespace allocmark {

// One soak with its drifts.
struct SoakReport {
  SoakRecord record;
  std::vector<Drift> drifts;
};

[[nodiscard]] std::string render_soak(const SoakReport& report);
// One object for each soak, in a document.
[[nodiscard]] std::string to_json(const std::vector<SoakReport>& reports);

// "1.2 of 8.0 h, 412 passes, allocate P50 311 ns, held 2.1 GiB".
[[nodiscard]] std::string soak_progress(const SoakRecord& record);
// "flat", or what grows, in one sentence.
[[nodiscard]] std::string soak_answer(const SoakReport& report);
// "whole", or how it ended.
[[nodiscard]] std::string soak_state(const SoakRecord& record);
// "2.1 GiB -> 2.3 GiB".
[[nodiscard]] std::string change_text(const Drift& drift);
[[nodiscard]] bool drifts_up(const SoakReport& report);

// Two soaks of the same program, one on each side of an A/B run: whether the second grows where the
// first does not, or faster. Drifts flow in; a verdict for each measure flows out.
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
