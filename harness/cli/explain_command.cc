// 'allocmark explain CONF': what a config string means for an allocator, key by key, or what is
// wrong with it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>

#include "allocators/backend.h"
#include "allocators/caching/config.h"
#include "allocators/conf.h"
#include "harness/cli/commands.h"

namespace allocmark {
namespace {

// Meaning and allowed values of a key; empty where the allocator publishes none.
std::string meaning_of(const std::string& allocator, const std::string& key) {
  if (allocator != "caching") {
    return {};
  }
  for (const caching::ConfigKey& known : caching::config_keys()) {
    if (known.name == key) {
      return fmt::format("{} Allowed: {}.", known.meaning, known.allowed);
    }
  }
  return {};
}

}  // namespace

ExitCode explain_command(const ExplainCommand& command) {
  const BackendEntry& entry = find_backend(command.allocator);
  const std::string conf = command.conf == "unset" ? "" : command.conf;
  if (std::optional<ErrorText> error = entry.check_conf(conf); error.has_value()) {
    throw UsageError(*error);
  }
  if (conf.empty()) {
    fmt::print("unset: {} runs with its defaults\n", entry.name);
    return ExitCode::Pass;
  }
  for (const ConfPair& pair : split_conf(conf, entry.conf_keys).pairs) {
    fmt::print("{} = {}\n", pair.key, pair.value);
    if (const std::string meaning = meaning_of(command.allocator, pair.key); !meaning.empty()) {
      fmt::print("    {}\n", meaning);
    }
  }
  return ExitCode::Pass;
}

}  // namespace allocmark
