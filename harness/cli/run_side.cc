// See run_side.h.
#include "harness/cli/run_side.h"

#include <filesystem>

#include "harness/run/conditions.h"
#include "harness/run/run_folder.h"

namespace allocmark {

RunSide read_side(const std::string& label, const std::string& path) {
  RunSide side{.label = label};
  if (!std::filesystem::is_directory(path)) {
    side.file = read_run_file(path);
    return side;
  }
  side.planned = read_manifest(path).cells;
  side.file = read_run_file(results_path(path));
  add_stored_conditions(path, &side.file.environment);
  return side;
}

}  // namespace allocmark
