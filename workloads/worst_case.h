// The worst that a generated job can draw. A workload's text flows in; the texts of the same
// workload with the longest lengths flow out, for 'advise' and 'fit' to ask about, too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// The workload with the longest lengths in all draws, and in a quarter of them: the first has most
// live memory, the second more different sizes. Empty where nothing in it draws lengths.
[[nodiscard]] std::vector<std::string> worst_cases(std::string_view workload);

}  // namespace allocmark
