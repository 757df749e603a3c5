// Replays a log of stream-ordered pools and compares every figure of every line. In: a log. Out:
// how many lines agree in each column, and the first that does not.
#pragma once

#include <cstdint>
#include <string>

namespace simcuda {

struct PoolReplay {
  std::uint64_t line_count = 0;
  std::uint64_t status_equal_count = 0;
  std::uint64_t address_equal_count = 0;
  std::uint64_t reserved_equal_count = 0;
  std::uint64_t reserved_high_equal_count = 0;
  std::uint64_t used_equal_count = 0;
  std::uint64_t used_high_equal_count = 0;
  std::uint64_t free_equal_count = 0;  // of the device
  std::string first_difference;        // the line and what the simulation answered
};

[[nodiscard]] PoolReplay replay_pool_log(const std::string& path);

}  // namespace simcuda
