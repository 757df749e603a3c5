// All backends by name.
#pragma once

#include <span>
#include <string_view>

#include "allocators/backend/backend.h"

namespace allocmark {

// All backends, in the order tables show them.
[[nodiscard]] std::span<const BackendEntry> backend_registry();

// Those that stand for one release of an allocator: caching@2.13, rmm@26.10, and torch@2.13.0
// where that is fetched.
[[nodiscard]] std::span<const BackendEntry> release_registry();

// What to do where there is no such allocator.
[[nodiscard]] std::string suggest_backend(std::string_view name);

// By name; null where there is none.
[[nodiscard]] const BackendEntry* known_backend(std::string_view name);

// The same; throws UsageError with the nearest names.
[[nodiscard]] const BackendEntry& find_backend(std::string_view name);

// The config string that a user gave with --conf: "unset" is none. UsageError where the
// allocator refuses it.
[[nodiscard]] std::string read_conf(const BackendEntry& entry, std::string_view text);

// Throws UsageError where the allocator hands out memory of the host, which `asker` is not about.
void check_serves_device(const BackendEntry& entry, std::string_view asker);

// Throws UsageError where the config string is bad, EnvironmentError where the allocator cannot run
// on this machine.
void check_runs_here(const BackendEntry& entry, std::string_view conf);

}  // namespace allocmark
