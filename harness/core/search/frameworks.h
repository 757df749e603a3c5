// Frameworks whose memory is set by environment variables and not by a config string: which
// variables there are, and which backend with which config string models each choice. A framework's
// name flows in; settings, and the search over them, flow out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/search/search.h"
#include "harness/core/search/search_process.h"

namespace allocmark {

struct FrameworkSetting {
  // "NAME=VALUE NAME=VALUE", as a shell's export takes it; empty: no variable is set.
  std::string setting;
  std::string allocator;  // of the registry
  std::string conf;       // of that allocator
  std::string note{};     // what to know before it is set
};

struct Framework {
  std::string name;   // "jax"
  std::string title;  // "JAX"
  std::vector<FrameworkSetting> settings;

  // By `setting`, which must be one of them.
  [[nodiscard]] const FrameworkSetting& at(std::string_view setting) const;
  // Of its settings, each once.
  [[nodiscard]] std::vector<std::string> variables() const;
  [[nodiscard]] std::vector<std::string> allocators() const;
};

[[nodiscard]] std::vector<std::string> framework_names();

// `capacity_bytes`: of the card, as a pool of the driver is set up by it. `name` is one of
// framework_names().
[[nodiscard]] Framework framework_of(std::string_view name, std::uint64_t capacity_bytes);

// As run_search, for the settings that spec.confs names (as FrameworkSetting::setting); their facts
// have those names. spec.allocator plays no part.
[[nodiscard]] SearchResult run_framework_search(
    const Framework& framework, const SearchSpec& spec, const SearchPlace& place,
    const std::function<void()>& on_setting = [] {});

}  // namespace allocmark
