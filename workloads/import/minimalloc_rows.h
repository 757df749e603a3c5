// A row of minimalloc's CSV, for writers: a block, the time when it begins, the one when it has
// ended, its size, and in solutions the place that it got. Text flows out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace allocmark {

struct MinimallocRow {
  std::string id{};
  std::uint64_t lower = 0;
  std::uint64_t upper = 0;  // above lower
  std::uint64_t size_bytes = 0;
  std::optional<std::uint64_t> offset_bytes{};  // of solutions
};

// Lines with their ends.
inline constexpr std::string_view kMinimallocHeader = "id,lower,upper,size\n";
inline constexpr std::string_view kMinimallocSolutionHeader = "id,lower,upper,size,offset\n";
[[nodiscard]] std::string minimalloc_line(const MinimallocRow& row);

}  // namespace allocmark
