// A cell in a process of its own. A specification flows in; whatever happens to the process - a
// result, a crash, a hang, garbage - flows out as a CellResult. The specification goes to the child
// as JSON on stdin, the result comes back as one JSON line on fd 3.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/cell/cell.h"
#include "harness/job/child_process.h"
#include "results/schema.h"

namespace allocmark {

[[nodiscard]] std::string to_json_line(const CellSpec& spec);
// Throws UsageError where the line is no specification.
[[nodiscard]] CellSpec cell_spec_from_json(std::string_view line);

// How to start the cell: this program again, with the CUDA runtime that the device needs in front.
[[nodiscard]] ChildCommand cell_command(const CellSpec& spec, const std::string& program_path);

// What the child's end means: its own result where it gave one, else why there is none.
[[nodiscard]] CellResult cell_result(const CellSpec& spec, const ChildOutcome& outcome);

}  // namespace allocmark
