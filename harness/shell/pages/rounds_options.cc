// See rounds_options.h.
#include "harness/shell/pages/rounds_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace allocmark {

void add_rounds(CLI::App* app, const std::string& group, InterleaveSettings* settings) {
  app->add_option("--rounds", settings->round_count,
                  "Rounds before the first look; each side runs every cell once in a round")
      ->check(CLI::Range(2u, 10000u))
      ->group(group)
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--rounds-max", settings->round_count_max,
                  "Most rounds; undecided cells go on to twice, four times ... as many as --rounds")
      ->check(CLI::Range(2u, 10000u))
      ->group(group)
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--turns", settings->turns,
                  "pass: both sides' processes exist together and alternate pass by pass; process: "
                  "one runs after the other")
      ->check(CLI::IsMember({"pass", "process"}))
      ->group(group)
      ->capture_default_str()
      ->type_name("T");
  app->add_option("--order-seed", settings->order_seed, "Seed for the order of the sides")
      ->group(group)
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace allocmark
