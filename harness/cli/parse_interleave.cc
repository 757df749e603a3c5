// See parse_interleave.h.
#include "harness/cli/parse_interleave.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace allocmark {
namespace {

void add_rounds(CLI::App* app, const std::string& group, InterleaveSettings* settings) {
  app->add_option("--rounds", settings->round_count,
                  "Rounds before the first look; each side runs every cell once in a round")
      ->check(CLI::Range(2u, 10000u))
      ->group(group)
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--rounds-max", settings->round_count_max,
                  "Undecided cells go on until twice, four times ... as many, up to this")
      ->check(CLI::Range(2u, 10000u))
      ->group(group)
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--turns", settings->turns,
                  "pass: both sides' processes are there at the same time and alternate pass by "
                  "pass; process: one runs when the other has ended")
      ->check(CLI::IsMember({"pass", "process"}))
      ->group(group)
      ->capture_default_str()
      ->type_name("T");
  app->add_option("--order-seed", settings->order_seed, "Of the order in which sides take turns")
      ->group(group)
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace

void add_ab(CLI::App* app, RunCommand* command) {
  const char* group = "Two sides in turn";
  app->add_option(
         "--ab", command->ab,
         "Run A and B in turn and compare them: two allocmark programs (paths), two "
         "allocators as --allocator takes them, or two config strings as --conf takes them")
      ->expected(2)
      ->group(group)
      ->type_name("A B");
  add_rounds(app, group, &command->interleave);
  app->add_option("--policy", command->policy, "JSON file that says what a regression is")
      ->group(group)
      ->type_name("FILE");
  app->add_option("--min-effect", command->effect_min,
                  "Smallest change of a timed number that is called one [3%]")
      ->group(group)
      ->type_name("SHARE");
  const char* manner = "How to run it";
  app->add_option("--until-width", command->until_width,
                  "Go on with timed passes until the intervals of allocate's P50 and P99 are at "
                  "most this wide, as in 5%")
      ->group(manner)
      ->type_name("SHARE");
  app->add_option("--passes-max", command->pass_count_max,
                  "Timed passes at most, with --until-width")
      ->check(CLI::Range(2u, 100000u))
      ->group(manner)
      ->capture_default_str()
      ->type_name("N");
}

void add_confirm(CLI::App* app, CompareCommand* command) {
  const char* group = "Confirmation";
  app->add_flag("--confirm", command->confirm,
                "Run cells that look better or worse again, both sides in turn; what that says "
                "counts")
      ->group(group);
  app->add_option("--base-program", command->base_program,
                  "The allocmark that made BASE [the one its plan.json names]")
      ->group(group)
      ->type_name("PATH");
  app->add_option("--new-program", command->new_program, "The allocmark that made NEW")
      ->group(group)
      ->type_name("PATH");
  app->add_option("--confirm-out", command->confirm_out,
                  "New folder for what the confirmation measures [beside NEW]")
      ->group(group)
      ->type_name("DIR");
  app->add_option("--passes", command->pass_count, "Timed passes of each process [the runs']")
      ->check(CLI::Range(1u, 100000u))
      ->group(group)
      ->type_name("N");
  app->add_option("-j,--jobs", command->job_count, "Processes at a time")
      ->check(CLI::Range(1u, 4096u))
      ->group(group)
      ->capture_default_str()
      ->type_name("J");
  add_rounds(app, group, &command->interleave);
}

}  // namespace allocmark
