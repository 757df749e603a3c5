// See registry.h. The names stand in the CMakeLists.txt of this folder.
#include "harness/cli/registry.h"

#include "harness/cli/command_list.h"
#include "harness/cli/job_list.h"

namespace allocmark {

std::span<const CommandEntry> command_registry() {
  static const std::vector<CommandEntry> entries = [] {
    std::vector<CommandEntry> all;
    for (const CommandEntry* entry : kCommandEntries) all.push_back(*entry);
    return all;
  }();
  return entries;
}

std::span<const JobEntry* const> job_registry() { return kJobEntries; }

}  // namespace allocmark
