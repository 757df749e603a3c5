// See registry.h.
#include "harness/shell/registry.h"

namespace allocmark {
namespace {

std::vector<CommandEntry>& entries() {
  static std::vector<CommandEntry> all;
  return all;
}

}  // namespace

void set_commands(std::span<const CommandEntry* const> commands) {
  entries().clear();
  for (const CommandEntry* entry : commands) entries().push_back(*entry);
}

std::span<const CommandEntry> command_registry() { return entries(); }

}  // namespace allocmark
