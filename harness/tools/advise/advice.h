// What 'advise' found, and what the finalists cost: as their cells say it or as the search models
// it. Facts flow in; costs in the order of their rank flow out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/core/pinned/pinned_rows.h"
#include "harness/shell/question/card_choice.h"
#include "harness/tools/advise/advise_search.h"
#include "harness/tools/advise/verdict.h"
#include "results/answer/answer.h"
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

// The cells as one experiment.
struct Measured {
  std::vector<CellGroup> groups;
  Answer answer;
};
// Nothing where none was measured.
[[nodiscard]] std::optional<Measured> measured_of(const std::vector<CellResult>& cells);

// Of that setting; null where it was not measured.
[[nodiscard]] const CellResult* cell_of(const Advice& advice, const std::string& setting);

// In the order of the answer's rank, unset where its cost puts it first.
[[nodiscard]] std::vector<FinalistCost> costs_of(const Advice& advice,
                                                 const std::optional<Measured>& measured);

// Prints the verdict first, then what it rests on: text, Markdown or JSON to stdout. `all`: every
// setting searched, not the finalists alone.
void print_advice(const Advice& advice, const JobOptions& job, bool all);

}  // namespace allocmark
