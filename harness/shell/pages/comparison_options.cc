// See comparison_options.h.
#include "harness/shell/pages/comparison_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace allocmark {

void add_comparison(CLI::App* app, std::vector<std::string>* baselines, std::string* policy,
                    std::string* calibration) {
  app->add_option("--baseline", *baselines,
                  "A run to compare with, as 'compare' does: its folder or results.jsonl")
      ->type_name("BASE");
  app->add_option("--policy", *policy, "JSON file that says what a regression is")
      ->type_name("FILE");
  app->add_option("--calibration", *calibration,
                  "JSON file that says how far apart two equal runs come on this machine")
      ->type_name("FILE");
}

}  // namespace allocmark
