// Reads a golden: what PyTorch's own allocator answered for one trace under one config string and
// one limit. Text in, a struct out; a file that is cut short or is no golden is a UsageError that
// names the line.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/release.h"

namespace allocmark::caching {

// Where an allocation landed.
struct GoldenAnswer {
  bool out_of_memory = false;
  bool placed = false;                // false: the backend does not decide places (cudaMallocAsync)
  std::uint64_t segment_address = 0;  // of the segment the block lies in, as it was then
  std::uint64_t address = 0;
};

// Reserved bytes or segments changed, as seen after an allocation.
struct GoldenReserved {
  std::uint64_t operation = 0;  // 0-based, of the trace
  std::uint64_t reserved_bytes = 0;
  std::uint64_t segment_count = 0;
};

// All counters after a number of operations.
struct GoldenCounters {
  std::uint64_t operation_count = 0;
  // "allocation.all" -> current, peak, allocated, freed; two values are current and
  // allocated; a single one is a plain number.
  struct Entry {
    std::string name{};
    std::array<std::int64_t, 4> values{};
    std::size_t value_count = 0;
  };
  std::vector<Entry> entries{};
};

struct Golden {
  std::string name;  // for messages: where it came from
  std::uint64_t device_total_bytes = 0;
  std::uint64_t limit_bytes = 0;  // 0 is none
  bool cuda_malloc_async = false;
  std::optional<std::string> conf;  // config string, where the golden says it
  // Of the release that the golden says ("# pytorch: 2.13.0"); without that line those of 2.11,
  // which the first goldens were recorded with.
  const Rules* rules = &recorded_rules();
  std::vector<GoldenAnswer> answers;  // one for each allocation of the trace
  std::vector<GoldenReserved> reserved;
  std::vector<GoldenCounters> counters;
  std::string out_of_memory_message;  // of the first failure; empty where there was none
};

// Throws UsageError.
[[nodiscard]] Golden parse_golden(std::string_view text, std::string name);

}  // namespace allocmark::caching
