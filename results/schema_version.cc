// See schema_version.h.
#include "results/schema_version.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "results/schema.h"

namespace allocmark {

std::optional<SchemaVersion> parse_schema_version(std::string_view text) {
  std::array<std::uint32_t, 3> parts{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const auto [next, error] = std::from_chars(at, end, parts[index]);
    if (error != std::errc{}) return std::nullopt;
    const bool last = index + 1 == parts.size();
    if (last ? next != end : (next == end || *next != '.')) return std::nullopt;
    at = last ? next : next + 1;
  }
  return SchemaVersion{.major = parts[0], .minor = parts[1]};
}

SchemaVersion our_schema_version() {
  return parse_schema_version(kSchemaVersion).value_or(SchemaVersion{});
}

}  // namespace allocmark
