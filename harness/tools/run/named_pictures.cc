// See named_pictures.h.
#include "harness/tools/run/named_pictures.h"

#include <algorithm>
#include <filesystem>

#include "harness/core/cell/cell.h"
#include "harness/shell/pages/run_specs.h"
#include "results/answer/answer.h"
#include "results/columns/columns.h"

namespace allocmark {
namespace {

// Unset, and the best of what serves every request. Without unset and the best, whoever has
// numbers.
void add_named(const Answer& answer, std::vector<CellKey>* named) {
  if (answer.baseline != nullptr) named->push_back(answer.baseline->key);
  if (!answer.settable.empty()) {
    named->push_back(answer.settable.front().cell->key);
  } else if (answer.baseline == nullptr && !answer.others.empty()) {
    named->push_back(answer.others.front().cell->key);
  } else if (answer.baseline == nullptr && !answer.with_oom.empty()) {
    named->push_back(answer.with_oom.front()->key);
  }
}

}  // namespace

std::vector<CellKey> cells_of_answer(std::span<const CellResult> cells) {
  const std::vector<CellGroup> groups = group_cells(cells);
  std::vector<CellKey> named;
  for (const CellGroup& group : groups) {
    const Answer answer = find_answer(group);
    if (groups.size() == 1 || answer.verdict != AnswerVerdict::Served) add_named(answer, &named);
  }
  if (named.empty() && !groups.empty()) add_named(find_answer(groups.front()), &named);
  if (named.size() > kPictureCountMax) named.resize(kPictureCountMax);
  return named;
}

std::size_t draw_cells(const std::vector<CellKey>& cells, const std::string& folder,
                       const RunCellsOptions& options) {
  std::vector<CellSpec> specs;
  for (const CellKey& key : cells) {
    CellSpec spec;
    spec.key = key;
    spec.pass_count = 0;
    spec.verify = VerifyLevel::Off;
    spec.timeout_s = kPictureTimeoutS;
    specs.push_back(spec);
  }
  if (specs.empty()) return 0;
  add_timelines(folder, &specs);
  (void)run_cells(specs, options, [](const CellResult&) {});
  return static_cast<std::size_t>(std::ranges::count_if(
      specs, [](const CellSpec& spec) { return std::filesystem::exists(spec.timeline_path); }));
}

}  // namespace allocmark
