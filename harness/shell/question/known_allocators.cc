// See known_allocators.h.
#include "harness/shell/question/known_allocators.h"

#include <set>

#include "allocators/backend/backend.h"
#include "allocators/caching/explain.h"
#include "allocators/caching/release.h"
#include "allocators/registry.h"
#include "harness/shell/terminal.h"

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

std::vector<std::string> conf_warnings(std::string_view allocator, std::string_view conf) {
  if (conf.empty()) return {};
  const BackendEntry& entry = find_backend(allocator);
  const caching::Rules* const rules = caching::find_rules(entry.release);
  return rules == nullptr ? std::vector<std::string>{} : caching::conf_dangers(conf, *rules);
}

void print_conf_warnings(const std::vector<UsedConf>& confs) {
  std::set<std::string> told;
  for (const UsedConf& one : confs) {
    for (const std::string& warning : conf_warnings(one.allocator, one.conf)) {
      if (told.insert(warning).second) print_warning(warning);
    }
  }
}

}  // namespace allocmark
