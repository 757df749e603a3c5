// See comparison_options.h.
#include "harness/shell/pages/comparison_options.h"
#include "harness/shell/options.h"

#include <string>

namespace allocmark {

void add_comparison(CLI::App* app, std::vector<std::string>* baselines, std::string* policy,
                    std::string* calibration) {
  add_value(app, "--baseline", *baselines, "BASE",
            "A run to compare with, as 'compare' does: its folder or results.jsonl");
  add_value(app, "--policy", *policy, "FILE", "JSON file that says what a regression is");
  add_value(app, "--calibration", *calibration, "FILE",
            "JSON file that says how far apart two equal runs come on this machine");
}

void add_rounds(CLI::App* app, const std::string& group, InterleaveSettings* settings) {
  add_value(app, "--rounds", settings->round_count, "N",
            "Rounds before the first look; each side runs every cell once in a round")
      ->check(CLI::Range(2u, 10000u))
      ->group(group)
      ->capture_default_str();
  add_value(app, "--rounds-max", settings->round_count_max, "N",
            "Most rounds; undecided cells go on to twice, four times ... as many as --rounds")
      ->check(CLI::Range(2u, 10000u))
      ->group(group)
      ->capture_default_str();
  add_value(app, "--turns", settings->turns, "T",
            "pass: both sides' processes exist together and alternate pass by pass; process: one "
            "runs after the other")
      ->check(CLI::IsMember({"pass", "process"}))
      ->group(group)
      ->capture_default_str();
  add_value(app, "--order-seed", settings->order_seed, "N", "Seed for the order of the sides")
      ->group(group)
      ->capture_default_str();
}

}  // namespace allocmark
