// What a setting can break outside the allocator: sharing tensors between processes, sleep modes,
// memory that a network card or NCCL registers, other systems than Linux. A table of what is known,
// with its sources; a config string flows in, its rows and one sentence flow out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark::caching {

enum class Safety : std::uint8_t {
  AsUnset,      // memory comes from cudaMalloc, as without the setting
  Conditional,  // works under a condition that the row names
  Broken,       // refused, or fails
};

// "as unset", "with conditions", "no".
[[nodiscard]] std::string_view to_string(Safety safety);

struct SafetyNote {
  std::string_view key;
  std::string_view value;  // of the key; empty: any
  std::string_view area;   // "CUDA IPC"
  Safety safety = Safety::AsUnset;
  std::string_view words;
  std::string_view sources;  // public: documentation, pull requests, issues
};

// The rows of the string's keys, in the table's order; empty for "" and for a string that strict
// mode rejects.
[[nodiscard]] std::vector<const SafetyNote*> safety_of(std::string_view conf);

// "not with sleep mode or RDMA; CUDA IPC: needs ..."; empty where there are no rows.
[[nodiscard]] std::string safety_sentence(std::string_view conf);

}  // namespace allocmark::caching
