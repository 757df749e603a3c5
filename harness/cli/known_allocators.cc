// See known_allocators.h.
#include "harness/cli/known_allocators.h"

#include <string>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"

namespace allocmark {

std::vector<PlanAllocator> known_allocators() {
  std::vector<PlanAllocator> known;
  for (const BackendEntry& entry : backend_registry()) {
    known.push_back({.name = std::string(entry.name),
                     .conf_keys = entry.conf_keys,
                     .argument_keys = entry.argument_keys,
                     .check_conf = entry.check_conf});
  }
  return known;
}

}  // namespace allocmark
