// What became of all nodes, for people and programs. Rows and kinds flow in, text flows out; each
// ends with a newline.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "harness/tools/qualify/fleet/nodes.h"
#include "harness/tools/qualify/fleet/outliers.h"

namespace allocmark::fleet {

struct Fleet {
  std::vector<NodeRow> rows;
  std::vector<Kind> kinds;
};

// A line per node that is not simply used, worst first; then the counts.
[[nodiscard]] std::string render_fleet_table(const Fleet& fleet);
// Every node; README.md of this folder names the keys.
[[nodiscard]] std::string render_fleet_json(const Fleet& fleet);
// Names of nodes with that action, one a line; nothing where there are none.
[[nodiscard]] std::string render_names(const Fleet& fleet, Action action);

// 1 where a node is to be drained; 3 where nodes gave no verdict; else 0.
[[nodiscard]] ExitCode fleet_exit_code(const Fleet& fleet);

}  // namespace allocmark::fleet
