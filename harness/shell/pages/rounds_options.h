// How two sides take turns, as options.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace allocmark {

// How two sides take turns.
struct InterleaveSettings {
  std::uint32_t round_count = 16;
  std::uint32_t round_count_max = 48;
  std::uint64_t order_seed = 1;
  std::string turns = "pass";  // or "process"
};

void add_rounds(CLI::App* app, const std::string& group, InterleaveSettings* settings);

}  // namespace allocmark
