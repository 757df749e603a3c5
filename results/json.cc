// The words of the result format.
#include "results/json.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace allocmark {
namespace {

constexpr std::array<std::string_view, kCellStatusCount> kStatusNames{
    "ok", "oom_stopped", "skipped", "failed", "crashed", "timed_out", "interrupted"};
constexpr std::array<std::string_view, kOomCauseCount> kCauseNames{
    "capacity", "rounding", "stranded", "fragmentation", "unknown", "pending"};

template <typename Enum, std::size_t Count>
std::optional<Enum> find_name(const std::array<std::string_view, Count>& names,
                              std::string_view text) {
  for (std::size_t index = 0; index < Count; ++index) {
    if (names[index] == text) return static_cast<Enum>(index);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(CellStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

std::optional<CellStatus> parse_cell_status(std::string_view text) {
  return find_name<CellStatus>(kStatusNames, text);
}

std::string_view to_string(OomCause cause) {
  return kCauseNames.at(static_cast<std::size_t>(cause));
}

std::optional<OomCause> parse_oom_cause(std::string_view text) {
  return find_name<OomCause>(kCauseNames, text);
}

}  // namespace allocmark
