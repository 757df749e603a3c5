// The options by which a report holds a run against another, and by which two sides take turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace allocmark {

void add_comparison(CLI::App* app, std::vector<std::string>* baselines, std::string* policy,
                    std::string* calibration);

// How two sides take turns.
struct InterleaveSettings {
  std::uint32_t round_count = 16;
  std::uint32_t round_count_max = 48;
  std::uint64_t order_seed = 1;
  std::string turns = "pass";  // or "process"
};

void add_rounds(CLI::App* app, const std::string& group, InterleaveSettings* settings);

}  // namespace allocmark
