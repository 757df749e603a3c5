// The version of the format of results, as every line states it. Flows in: its text; flows out: its
// numbers. Neither times nor checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace allocmark {

struct SchemaVersion {
  std::uint32_t major = 0, minor = 0;
};

// The MAJOR and MINOR of "1.2.3"; nothing for any other text.
[[nodiscard]] std::optional<SchemaVersion> parse_schema_version(std::string_view text);

// kSchemaVersion's.
[[nodiscard]] SchemaVersion our_schema_version();

}  // namespace allocmark
