// See kinds.h.
#include "harness/tools/qualify/fleet/kinds.h"

#include <nlohmann/json.hpp>
#include "base/json_text.h"

namespace allocmark::fleet {

KindKey kind_of(const qualify::Report& report, const qualify::GpuReport& gpu) {
  std::string machine = report.node.machine_type;
  if (machine.empty() && !report.environment.empty()) {
    const auto environment = parse_json(report.environment);
    const auto processor = environment.find("cpu_model");
    if (processor != environment.end() && processor->is_string()) machine = *processor;
  }
  return {.model = gpu.facts.name,
          .machine = machine,
          .driver = report.node.driver_version,
          .level = report.level};
}

}  // namespace allocmark::fleet
