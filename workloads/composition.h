// Workloads made of workloads: "A then B" is one process that runs B after A, in the heap that A
// left behind; "A beside B" is two processes at once on one device, each with an allocator of its
// own. "beside" binds looser than "then". Part number i gets the seed plus i.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

// The workloads that a text is made of, without "then" and "beside"; the text itself where it has
// neither.
[[nodiscard]] std::vector<std::string> workload_parts(std::string_view text);

// The text with `replace`d parts. Throws UsageError where what replaces a part would not be one
// part of the whole: other parts would get other seeds.
[[nodiscard]] std::string replace_workload_parts(
    std::string_view text, const std::function<std::string(const std::string&)>& replace);

// Null where the text has neither word. Throws UsageError where a part is bad, empty or, after
// "then", itself several processes.
[[nodiscard]] std::unique_ptr<EventSource> open_composition(std::string_view text,
                                                            std::uint64_t seed);

}  // namespace allocmark
