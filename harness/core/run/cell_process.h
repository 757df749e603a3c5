// A cell in a process of its own. A specification flows in; whatever happens to the process - a
// result, a crash, a hang, garbage - flows out as a CellResult. The result comes back as the
// line that results.jsonl has.
#pragma once

#include <string>

#include "harness/core/cell/cell.h"
#include "harness/job/job.h"
#include "results/schema.h"

namespace allocmark {

// A specification crosses the pipe by the names of its fields. unpack throws nlohmann's exceptions.
namespace job {

template <>
struct Packed<CellSpec> {
  static Json pack(const CellSpec& spec);
  static CellSpec unpack(const Json& json);
};

}  // namespace job

// How to start the cell: this program again, with the CUDA runtime that the device needs in front.
[[nodiscard]] ChildCommand cell_command(const CellSpec& spec, const std::string& program_path,
                                        JobEnvironment environment = {});

// Of a cell of which there is nothing but the reason for that.
[[nodiscard]] CellResult without_result(const CellSpec& spec, std::string reason,
                                        CellStatus status = CellStatus::Failed, double wall_s = 0);

// What the child's end means: its own result where it gave one, else why there is none.
[[nodiscard]] CellResult cell_result(const CellSpec& spec, const ChildOutcome& outcome);

}  // namespace allocmark
