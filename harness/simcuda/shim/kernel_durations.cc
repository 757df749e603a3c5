// Kernels that do nothing but take time: SIMCUDA_KERNELS, which simcuda-run --kernels sets. In:
// "nothing", "nothing:5000", "PART:NS" for kernels whose mangled name contains PART, "@FILE" with a
// row "PART NS" for each; several with commas between. Out: a kernel's duration in ns. The longest
// part that is in the name decides.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "base/number_text.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kShortKernelNs = 2000;
constexpr const char* kWanted =
    "wanted nothing, nothing:NS, NAME_PART:NS or @FILE with a row 'NAME_PART NS' each, got '";

struct DurationRule {
  std::string name_part;  // empty: every kernel
  std::uint64_t duration_ns = 0;
};
// Written once, before the first call goes on.
std::vector<DurationRule>& rules() { return made_once<std::vector<DurationRule>>(); }

std::uint64_t parse_ns(std::string_view text, const std::string& whole) {
  const std::optional<std::uint64_t> value = allocmark::number_in_text<std::uint64_t>(text);
  constexpr std::uint64_t kLongest = 3'600'000'000'000;  // an hour
  if (!value || *value > kLongest) {
    throw std::runtime_error("SIMCUDA_KERNELS: wanted whole nanoseconds up to an hour in '" +
                             whole + "', got '" + std::string(text) + "'");
  }
  return *value;
}

void add_rule(std::string name_part, std::uint64_t duration_ns) {
  if (name_part == "nothing") name_part.clear();
  rules().push_back({.name_part = std::move(name_part), .duration_ns = duration_ns});
}

void read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("SIMCUDA_KERNELS: cannot read " + path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name_part;
    std::string duration;
    std::string more;
    if (!(words >> name_part) || name_part.starts_with('#')) continue;
    if (!(words >> duration) || (words >> more)) {
      throw std::runtime_error("SIMCUDA_KERNELS: " + path + ": wanted 'NAME_PART NS', got '" +
                               line + "'");
    }
    add_rule(name_part, parse_ns(duration, path + ": " + line));
  }
}

}  // namespace

void read_kernel_durations() {
  const char* const text = std::getenv("SIMCUDA_KERNELS");
  std::istringstream items(text == nullptr ? "" : text);
  std::string item;
  while (std::getline(items, item, ',')) {
    const std::size_t colon = item.rfind(':');
    if (item.starts_with('@')) {
      read_file(item.substr(1));
    } else if (item == "nothing") {
      add_rule(item, kShortKernelNs);
    } else if (colon != std::string::npos && colon != 0) {
      add_rule(item.substr(0, colon), parse_ns(std::string_view(item).substr(colon + 1), item));
    } else {
      throw std::runtime_error(std::string("SIMCUDA_KERNELS: ") + kWanted + item + "'");
    }
  }
}

std::optional<std::uint64_t> kernel_duration_ns(std::string_view name) {
  const DurationRule* best = nullptr;
  for (const DurationRule& rule : rules()) {
    if (name.find(rule.name_part) == std::string_view::npos) continue;
    if (best == nullptr || rule.name_part.size() >= best->name_part.size()) best = &rule;
  }
  return best == nullptr ? std::nullopt : std::optional(best->duration_ns);
}

}  // namespace simcuda
