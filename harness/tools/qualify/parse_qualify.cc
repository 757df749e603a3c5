// See parse_qualify.h.
#include "harness/tools/qualify/parse_qualify.h"

#include "harness/shell/registry.h"

namespace allocmark {
namespace {

void add_output(CLI::App* app, QualifyCommand* command) {
  app->add_option("--node", command->node, "Name of this node in reports [the host's]")
      ->type_name("NAME");
  app->add_flag("--anonymous", command->anonymous,
                "Leave out the node's name and the GPUs' UUIDs, serial numbers and PCI addresses");
  add_format(app, &command->format,
             "What is printed: table, json, junit, prometheus, nvsentinel, superbench or dcgm",
             {"table", "json", "junit", "prometheus", "nvsentinel", "superbench", "dcgm"});
  app->add_flag(
         "--one-line", command->one_line,
         "Print one line, and exit as node-problem-detector wants it: 0 fit, 1 not, 2 unknown")
      ->excludes("--format");
  app->add_option("-o,--out", command->out,
                  "Folder for all formats, and for tests.jsonl, which grows while the tests run")
      ->type_name("DIR");
}

}  // namespace

void add_qualify(CLI::App* app, QualifyCommand* command) {
  app->add_option(
         "--level", command->level,
         "quick (one round of every test, under a minute per GPU), medium (5 minutes), long "
         "(30 minutes) or extra-long (8 hours)")
      ->capture_default_str()
      ->type_name("L");
  app->add_option("-d,--device", command->device,
                  "all (GPUs of this machine), cuda:N, or sim:NAME to see how it works")
      ->capture_default_str()
      ->type_name("D");
  app->add_option("--gpus", command->gpu_count, "How many GPUs to simulate, with sim:NAME")
      ->check(CLI::Range(1u, 16u))
      ->type_name("N");
  app->add_option("--thresholds", command->thresholds,
                  "JSON file whose thresholds replace those that ship")
      ->type_name("FILE");
  app->add_flag("--print-thresholds", command->print_thresholds,
                "Print the thresholds that ship, as a start for your own, and do nothing else");
  app->add_option("--baseline", command->baseline,
                  "What to compare latencies with: a device profile, or a file of 'merge "
                  "--baseline' from many machines [what ships for the GPU's model]")
      ->type_name("FILE");
  app->add_option("--seconds", command->seconds, "Time of tests per GPU, instead of the level's")
      ->check(CLI::Range(1.0, 1e7))
      ->type_name("S");
  app->add_option("--time-limit", command->time_limit_s,
                  "Seconds that a test may run beyond its time before it is ended and FAIL")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app->add_option("--time-budget", command->time_budget_s,
                  "Seconds for everything; tests without time left are SKIP, and health still runs "
                  "[no budget]")
      ->check(CLI::Range(1.0, 1e7))
      ->type_name("S");
  app->add_option("--fail-on", command->fail_on, "The mildest verdict with exit code 1")
      ->check(CLI::IsMember({"fail", "warn"}))
      ->capture_default_str()
      ->type_name("V");
  add_output(app, command);
  app->footer(
      "\nVerdicts: PASS, WARN, FAIL, SKIP per GPU and test; a precondition that is not met is "
      "never a "
      "PASS.\nExit codes: 0 PASS or WARN; 1 a GPU is unfit: replace or drain it; 2 usage; "
      "4 not ready, try again later:\nno GPU, or another process, heat or an old driver is in the "
      "way, and nothing else failed.\nNothing on the machine is changed. GPUs that other programs "
      "use are not "
      "touched.\n");
}

}  // namespace allocmark
