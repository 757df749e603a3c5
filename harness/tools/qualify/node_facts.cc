// See node_facts.h.
#include "harness/tools/qualify/node_facts.h"

#include "base/error.h"
#include "base/input_file.h"
#include "harness/core/run/environment.h"

namespace allocmark::qualify {

std::string machine_type() {
  std::string text;
  for (const char* name : {"sys_vendor", "product_name"}) {
    try {
      std::string part = read_file(std::string("/sys/class/dmi/id/") + name, kSystemInput);
      while (!part.empty() && static_cast<unsigned char>(part.back()) <= ' ') part.pop_back();
      text += (text.empty() || part.empty() ? "" : " ") + part;
    } catch (const FileError&) {
      // Containers and other architectures have none.
    }
  }
  return text;
}

void name_node(Report& report, const std::optional<std::string>& name) {
  report.node.machine_type = machine_type();
  report.is_anonymous = !name;
  if (name) {
    report.node.name = name->empty() ? host_name() : *name;
    return;
  }
  for (GpuReport& gpu : report.gpus) {
    for (std::string* text : {&gpu.facts.uuid, &gpu.facts.pci_bus_id, &gpu.facts.serial}) {
      text->clear();
    }
  }
}

}  // namespace allocmark::qualify
