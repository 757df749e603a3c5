// The config string of the caching allocator: PyTorch 2.11's PYTORCH_CUDA_ALLOC_CONF, every key.
// Strict mode is for people: whatever PyTorch would swallow, abort on or ignore is a clear error.
// PyTorch mode accepts and rejects exactly what PyTorch does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/settings.h"
#include "base/error.h"

namespace allocmark::caching {

struct ConfigKey {
  std::string name;
  std::string allowed;  // what a value may be, in words
  std::string meaning;  // one sentence
};

// Every key PyTorch 2.11 knows, in the order help texts show them.
[[nodiscard]] const std::vector<std::string>& config_key_names();

struct StrictConfig {
  Settings settings;
  std::optional<ErrorText> error;
};
[[nodiscard]] StrictConfig parse_strict(std::string_view conf);

// How PyTorch takes the string when it is the program's environment.
struct PytorchConfig {
  Settings settings;            // where accepted
  std::string error;            // PyTorch's text; empty where it accepts
  bool aborts_process = false;  // raised before main, when the library loads
  [[nodiscard]] bool accepted() const { return error.empty(); }
};
[[nodiscard]] PytorchConfig parse_pytorch(std::string_view conf);

// A change at run time: keys that are not mentioned keep their value or fall back to the default,
// as each does in PyTorch, and an error leaves what was applied before it. Returns PyTorch's error
// text, empty where accepted.
[[nodiscard]] std::string change_like_pytorch(Settings& settings, std::string_view conf);

}  // namespace allocmark::caching
