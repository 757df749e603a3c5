// What 'advise' prints: the verdict first, then what it rests on. Facts flow in; text, Markdown or
// JSON flows out to stdout. Decides nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/core/pinned/pinned_rows.h"
#include "harness/shell/question/card_choice.h"
#include "harness/tools/advise/advise_search.h"
#include "results/schema.h"

namespace allocmark {

// Of a job that asks for pinned memory of the host.
struct HostAdvice {
  PinnedProgram program;
  PinnedAdvice pinned;
};

struct Advice {
  AdviceSearch search = {};
  std::vector<std::string> finalists = {};  // what was to be measured, unset first
  std::vector<CellResult> cells = {};
  std::vector<std::string> disturbances = {};  // while the cells were measured
  Environment device = {};
  std::string workload = {};  // on the device's card
  std::optional<TargetQuestion> question = std::nullopt;
  std::optional<TargetAnswer> target = std::nullopt;
  std::optional<HostAdvice> host = std::nullopt;
};

// `all`: every setting searched, not the finalists alone.
void print_advice(const Advice& advice, const JobOptions& job, bool all);

}  // namespace allocmark
