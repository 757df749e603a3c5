// See known_allocators.h.
#include "harness/shell/question/known_allocators.h"

#include "allocators/backend/backend.h"
#include "allocators/registry.h"

namespace allocmark {

std::vector<PlanAllocator> known_allocators() {
  std::vector<PlanAllocator> known;
  for (const auto entries : {backend_registry(), release_registry()}) {
    for (const BackendEntry& entry : entries) {
      known.push_back({.name = entry.name,
                       .conf_keys = entry.conf_keys,
                       .argument_keys = entry.argument_keys,
                       .check_conf = entry.check_conf,
                       .check_simulated = entry.check_simulated});
    }
  }
  return known;
}

}  // namespace allocmark
