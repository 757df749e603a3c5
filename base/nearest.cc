#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string>
#include <utility>

namespace allocmark {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Insertions, deletions, substitutions and swaps of neighbours count as one edit each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // the row above the row above
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto [end_a, end_b] =
      std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin());
  return static_cast<std::size_t>(end_a - a.begin());
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known,
                                       std::size_t count_max) {
  const std::string wanted = lower(name);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& candidate : known) {
    const std::string other = lower(candidate);
    std::size_t distance = edit_distance(wanted, other);
    const std::size_t prefix = common_prefix(wanted, other);
    const bool shares_beginning =
        prefix >= 4 && 2 * prefix >= std::min(wanted.size(), other.size());
    if (shares_beginning) distance = std::min(distance, wanted.size() / 2);
    const std::size_t allowed = std::max<std::size_t>(2, std::max(wanted.size(), other.size()) / 2);
    if (distance < allowed || shares_beginning) ranked.emplace_back(distance, candidate);
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> result;
  for (const auto& [distance, candidate] : ranked) {
    if (result.size() == count_max) break;
    result.push_back(candidate);
  }
  return result;
}

std::string suggest(std::string_view name, const std::vector<std::string>& known,
                    std::string_view list_command) {
  constexpr std::size_t kShownMax = 12;
  const std::vector<std::string> near = nearest_names(name, known);
  std::string text;
  for (std::size_t i = 0; i < near.size(); ++i) {
    text += i == 0 ? "did you mean " : i + 1 == near.size() ? " or " : ", ";
    text += "'" + near[i] + "'";
  }
  if (!near.empty()) return text + "?";
  if (!list_command.empty()) return "see: " + std::string(list_command);
  const std::size_t shown = std::min(known.size(), kShownMax);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "known: " : ", ") + known[i];
  if (shown < known.size()) text += " and " + std::to_string(known.size() - shown) + " more";
  return text;
}

}  // namespace allocmark
