// See known_cells.h.
#include "results/compare/known_cells.h"

#include <fmt/format.h>

namespace allocmark {
namespace {

bool differ(const std::string& base, const std::string& now) {
  return !base.empty() && !now.empty() && base != now;
}

}  // namespace

std::string edited_workload(const CellKey& base, const CellKey& now) {
  if (differ(base.workload_definition, now.workload_definition)) {
    return fmt::format("the scenario '{}'", base.workload);
  }
  if (differ(base.workload_files, now.workload_files)) {
    return fmt::format("the trace file of '{}'", base.workload);
  }
  return "";
}

// A job's own release is named now; in older results its cell may stand without.
std::string missing_text(const CellKey& key, const KnownCells& known) {
  const std::string release = known.find_release(key);
  if (release.empty()) return "the cell is missing";
  return fmt::format(
      "the cell is missing; it is there as {}, the job's own release: run both sides with it",
      release);
}

std::string other_work(const CellResult& base, const CellResult& now) {
  if (differ(base.key.workload_definition, now.key.workload_definition)) {
    return fmt::format("the scenario differs: '{}' and '{}'", base.key.workload_text(),
                       now.key.workload_text());
  }
  if (differ(base.key.workload_files, now.key.workload_files)) {
    return fmt::format("the trace file differs: its content had hash {} and has {}",
                       base.key.workload_files, now.key.workload_files);
  }
  return fmt::format("the work differs: trace hash {} and {}", base.trace_hash, now.trace_hash);
}

}  // namespace allocmark
