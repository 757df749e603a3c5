// What became of all nodes, for people and programs, and as a baseline of latencies. Rows and kinds
// flow in, text flows out; each ends with a newline.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "harness/tools/qualify/fleet/nodes.h"
#include "harness/tools/qualify/fleet/outliers.h"
#include "harness/tools/qualify/spread.h"

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

// What calls take on the healthy machines, by kind of machine (fleet_baseline.cc).
// One entry per kind with enough machines, and one of all machines per GPU model. Nodes that are
// not judged, that fail, or that have an outlier of FAIL are left out. A machine counts once: its
// value is the median of its GPUs'.
[[nodiscard]] std::vector<qualify::Spread> baseline_of(const std::vector<NodeRow>& rows);

}  // namespace allocmark::fleet
