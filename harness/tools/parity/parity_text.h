// The words and comparisons of parity reports: operations, answers, counters and the allocator's
// state as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "allocators/caching/allocator.h"
#include "harness/tools/parity/golden.h"
#include "harness/tools/parity/parity.h"

namespace allocmark::caching {

// Our counters by name.
using FlatCounters = std::unordered_map<std::string, std::int64_t>;
// Our values where they differ from the entry's, as in the golden; empty where they are equal.
[[nodiscard]] std::string difference(const FlatCounters& ours, const GoldenCounters::Entry& entry);

[[nodiscard]] std::string show_values(const GoldenCounters::Entry& entry);  // "3/823/6796/6793"
[[nodiscard]] std::string describe_operation(const allocmark::Event& event);
[[nodiscard]] std::string describe_answer(const GoldenAnswer& answer);

// The segment that the golden's answer lies in and the free blocks of that pool, as lines.
[[nodiscard]] std::string describe_state(const CachingAllocator& allocator,
                                         const GoldenAnswer& expected);

// An out-of-memory text without what the device and its other users decided: free memory and
// process lines.
[[nodiscard]] std::string without_device_state(std::string_view message);

}  // namespace allocmark::caching
