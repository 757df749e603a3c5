// See run_side.h.
#include "harness/shell/pages/run_side.h"

#include <filesystem>
#include <utility>

#include "harness/core/run/conditions.h"
#include "harness/core/run/run_folder.h"
#include "results/compare/side_cells.h"

namespace allocmark {

RunSide read_side(const std::string& label, const std::string& path, CellDetail detail) {
  RunSide side{.label = label};
  const bool is_folder = std::filesystem::is_directory(path);
  const std::string results = is_folder ? results_path(path) : path;
  if (is_folder) side.planned = read_manifest(path).cells;
  side.file = read_run_file(results, detail);
  side.whole = cells_of_file(results, std::move(side.file.places));
  forget_measured(&side);
  if (is_folder) add_stored_conditions(path, &side.file.environment);
  return side;
}

}  // namespace allocmark
