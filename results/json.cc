// The words of the result format.
#include "results/json.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace allocmark {
namespace {

constexpr std::array<std::string_view, kCellStatusCount> kStatusNames{
    "ok", "oom_stopped", "skipped", "failed", "crashed", "timed_out", "interrupted"};

}  // namespace

std::string_view to_string(CellStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

std::optional<CellStatus> parse_cell_status(std::string_view text) {
  for (std::size_t index = 0; index < kCellStatusCount; ++index) {
    if (kStatusNames[index] == text) return static_cast<CellStatus>(index);
  }
  return std::nullopt;
}

std::optional<std::string> json_line_kind(std::string_view line) {
  const nlohmann::ordered_json object = parse_ordered_json(line);
  if (!object.is_object()) return std::nullopt;
  const nlohmann::ordered_json kind = object.value("kind", nlohmann::ordered_json(nullptr));
  return kind.is_string() ? std::optional(kind.get<std::string>()) : std::nullopt;
}

}  // namespace allocmark
