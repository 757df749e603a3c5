// What a soak found, as text and as JSON.
#pragma once

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

}  // namespace allocmark
