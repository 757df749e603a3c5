#include "workloads/worst_case.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "base/error.h"
#include "workloads/composition.h"
#include "workloads/open_workload.h"
#include "workloads/trace/parameters.h"

namespace allocmark {
namespace {

constexpr std::string_view kKey = "longest_percent";

// The part with the key; the part itself where it has none: generators refuse keys that they do not
// read.
std::string with_longest(const std::string& part, int percent) {
  try {
    if (Parameters(part).given(kKey) != nullptr) return part;
    // What is added of a card stands behind the keys.
    const std::size_t end = std::min(part.find('+'), part.size());
    std::string text =
        fmt::format("{},{}={}{}", part.substr(0, end), kKey, percent, part.substr(end));
    static_cast<void>(open_workload(text, 1));
    return text;
  } catch (const Error&) {
    return part;
  }
}

}  // namespace

std::vector<std::string> worst_cases(std::string_view workload) {
  const std::string defined = define_workload(workload);
  const std::string whole = defined.empty() ? std::string(workload) : defined;
  std::vector<std::string> texts;
  for (const int percent : {100, 25}) {
    std::string text = replace_workload_parts(
        whole, [&](const std::string& part) { return with_longest(part, percent); });
    if (text != whole) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace allocmark
