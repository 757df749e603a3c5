// 'allocmark explain CONF': what a config string means for an allocator, key by key, or what is
// wrong with it.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "allocators/backend.h"
#include "allocators/caching/explain.h"
#include "allocators/conf.h"
#include "allocators/registry.h"
#include "harness/cli/commands.h"

namespace allocmark {

ExitCode explain_command(const ExplainCommand& command) {
  const BackendEntry& entry = find_backend(command.allocator);
  const std::string conf = command.conf == "unset" ? "" : command.conf;
  const std::optional<ErrorText> error = entry.check_conf(conf);
  if (entry.name == "caching") {
    // Says of a bad string what PyTorch itself would make of it, too.
    fmt::print("{}", caching::explain_conf(conf));
    return error.has_value() ? ExitCode::Usage : ExitCode::Pass;
  }
  if (error.has_value()) {
    throw UsageError(*error);
  }
  if (conf.empty()) {
    fmt::print("unset: {} runs with its defaults\n", entry.name);
  }
  for (const ConfPair& pair : split_conf(conf, entry.conf_keys).pairs) {
    fmt::print("{} = {}\n", pair.key, pair.value);
  }
  return ExitCode::Pass;
}

}  // namespace allocmark
