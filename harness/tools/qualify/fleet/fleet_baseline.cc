// A baseline from many machines (fleet.h).
#include "harness/tools/qualify/fleet/fleet.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/median.h"

namespace allocmark::fleet {
namespace {

// The machine type that reports state, and not the processor that may stand for it: qualify looks
// for the same text.
using Key = std::tuple<std::string, std::string, std::string>;

struct Collected {
  std::set<std::string> machines;
  std::uint64_t memory_bytes = 0;
  // Of a figure and a machine the values of all its GPUs.
  std::map<std::string, std::map<std::string, std::vector<double>>> values;
};

bool is_healthy(const NodeRow& row) {
  return row.status == NodeStatus::Judged && row.report && row.action != Action::Drain &&
         row.action != Action::Retry;
}

void collect(const NodeRow& row, const qualify::GpuReport& gpu, Collected& collected) {
  collected.machines.insert(row.path);
  collected.memory_bytes = gpu.facts.memory_bytes;
  for (const qualify::TestResult& test : gpu.tests) {
    for (const qualify::Figure& figure : test.figures) {
      if (!figure.measured_ns || *figure.measured_ns <= 0) continue;
      collected.values[figure.name][row.path].push_back(*figure.measured_ns);
    }
  }
}

qualify::Spread spread_of(const Key& key, const Collected& collected) {
  qualify::Spread spread{.gpu_name = std::get<0>(key),
                         .machine_type = std::get<1>(key),
                         .driver_version = std::get<2>(key),
                         .machine_count = collected.machines.size(),
                         .memory_bytes = collected.memory_bytes};
  for (const auto& [name, machines] : collected.values) {
    std::vector<double> values;
    for (const auto& [machine, all] : machines) values.push_back(median(all));
    spread.rows[name] = {.median_ns = median(values),
                         .slowest_ns = *std::ranges::max_element(values),
                         .machine_count = values.size()};
  }
  return spread;
}

}  // namespace

std::vector<qualify::Spread> baseline_of(const std::vector<NodeRow>& rows) {
  std::map<Key, Collected> kinds;
  for (const NodeRow& row : rows) {
    if (!is_healthy(row)) continue;
    for (const qualify::GpuReport& gpu : row.report->gpus) {
      const qualify::NodeFacts& node = row.report->node;
      collect(row, gpu, kinds[{gpu.facts.name, "", ""}]);
      if (node.machine_type.empty() && node.driver_version.empty()) continue;
      collect(row, gpu, kinds[{gpu.facts.name, node.machine_type, node.driver_version}]);
    }
  }
  std::vector<qualify::Spread> spreads;
  for (const auto& [key, collected] : kinds) {
    if (collected.machines.size() < qualify::kSpreadMachinesMin) continue;
    spreads.push_back(spread_of(key, collected));
  }
  return spreads;
}

}  // namespace allocmark::fleet
