// See registry.h.
#include "harness/shell/registry.h"
#include "harness/shell/options.h"

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

CLI::Option* add_format(CLI::App* app, std::string* format, const std::string& text,
                        const std::vector<std::string>& forms) {
  return add_value(app, "--format", *format, "F", text)
      ->check(CLI::IsMember(forms))
      ->capture_default_str();
}

}  // namespace allocmark
