// The config string of the caching allocator: PYTORCH_CUDA_ALLOC_CONF, every key of every release.
// Strict mode is for people: whatever PyTorch would swallow, abort on or ignore is a clear error.
// PyTorch mode accepts and rejects exactly what PyTorch does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/settings.h"
#include "allocators/conf/conf.h"
#include "base/error.h"

namespace allocmark::caching {

// Which of PyTorch's two readers a key belongs to.
enum class KeyOwner : std::uint8_t { Generic, Cuda };

struct ConfigKey {
  std::string_view name;
  std::string_view allowed;  // what a value may be, in words
  std::string_view meaning;  // one sentence
  int since_minor = 0;       // 2.9 is the oldest release that is known: 9 is "2.9 or before"
  KeyOwner owner = KeyOwner::Cuda;
  std::string_view changed{};  // what was different in a release, in words; empty where nothing was

  [[nodiscard]] bool known_to(const Rules& rules) const { return since_minor <= rules.minor; }
};

// Every key of every release, in the order help texts show them.
[[nodiscard]] std::span<const ConfigKey> config_keys();
// Null where no release has it.
[[nodiscard]] const ConfigKey* find_config_key(std::string_view name);

// What True or False sets; null for keys of other values.
[[nodiscard]] bool Settings::*flag_of(std::string_view key);

// The names of those that a release knows.
[[nodiscard]] std::vector<std::string> config_key_names(const Rules& rules = newest_rules());

struct StrictConfig {
  Settings settings;
  std::vector<ConfPair> pairs{};  // as written
  std::optional<ErrorText> error;
};
[[nodiscard]] StrictConfig parse_strict(std::string_view conf, const Rules& rules = newest_rules());

// How PyTorch takes the string when it is the program's environment.
struct PytorchConfig {
  Settings settings;            // where accepted
  std::string error;            // PyTorch's text; empty where it accepts
  bool aborts_process = false;  // raised before main, when the library loads
  [[nodiscard]] bool accepted() const { return error.empty(); }
};
[[nodiscard]] PytorchConfig parse_pytorch(std::string_view conf,
                                          const Rules& rules = newest_rules());

// A change at run time: keys that are not mentioned keep their value or fall back to the default,
// as each does in PyTorch, and an error leaves what was applied before it. Returns PyTorch's error
// text, empty where accepted.
[[nodiscard]] std::string change_like_pytorch(Settings& settings, std::string_view conf);

}  // namespace allocmark::caching
