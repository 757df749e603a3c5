// Where the files that ship with the suite lie (recorded/, scenarios/): found at run time, so that
// an installed program, one in the build tree and a user's own collection all work.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

// The environment variable ALLOCMARK_DATA where it is set, else <program's
// folder>/../share/allocmark/workloads; a build folder has that path, too. Throws FileError
// where none exists.
[[nodiscard]] std::string workload_data_folder();

struct NamedFile {
  std::string name;  // what the command line says
  std::string path;
};

// recorded/NAME.ops.csv[.gz|.zst], by name.
[[nodiscard]] std::vector<NamedFile> recorded_traces();

}  // namespace allocmark
