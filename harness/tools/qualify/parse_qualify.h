// The options of 'allocmark qualify', as data and on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace allocmark {

struct QualifyCommand {
  std::string level = "quick";
  std::string device = "all";
  std::uint32_t gpu_count = 0;       // simulated; 0 = one, or what SIMCUDA_DEVICES says
  std::string thresholds, baseline;  // files; empty = what ships
  std::string format = "table";
  std::string out;  // folder; empty = none
  double time_limit_s = 120;
  double seconds = 0;        // instead of the level's; 0 = the level's
  double time_budget_s = 0;  // for everything; 0 = none
  std::string fail_on = "fail";
  std::string node;  // its name in reports; empty = the host's
  bool anonymous = false;
  bool one_line = false;
  bool print_thresholds = false;
  std::vector<std::string> argv;  // the whole command line, for the results file
};

void add_qualify(CLI::App* app, QualifyCommand* command);

}  // namespace allocmark
