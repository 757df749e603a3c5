// See parse_report.h.
#include "harness/cli/parse_report.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "harness/cli/output_path.h"

namespace allocmark {
namespace {

void add_comparison(CLI::App* app, std::vector<std::string>* baselines, std::string* policy,
                    std::string* calibration) {
  app->add_option("--baseline", *baselines,
                  "A run to hold this one against, as 'compare' does: its folder or results.jsonl")
      ->type_name("BASE");
  app->add_option("--policy", *policy, "JSON file that says what a regression is")
      ->type_name("FILE");
  app->add_option("--calibration", *calibration,
                  "JSON file that says how far apart two runs of the same thing come here")
      ->type_name("FILE");
}

}  // namespace

void add_report(CLI::App* app, ReportCommand* command) {
  app->add_option("folder", command->folder, "A folder that 'allocmark run' wrote")
      ->required()
      ->type_name("DIR");
  app->add_option("--format", command->format,
                  "Print this (table, markdown, csv, json, jsonl; facts: what the page is made "
                  "from) instead "
                  "of writing the report files")
      ->check(CLI::IsMember({"table", "markdown", "csv", "json", "jsonl", "facts"}))
      ->type_name("F");
  add_comparison(app, &command->baselines, &command->policy, &command->calibration);
  app->add_option("--latex", command->latex, "Write LaTeX tables there as well")->type_name("FILE");
  add_force(app, &command->force);
  app->add_option("--svg", command->svg, "Write the charts as SVG files into this folder as well")
      ->type_name("DIR");
  app->add_flag_callback(
      "--no-html", [command] { command->html = false; }, "Do not make report.html");
}

void add_bundle(CLI::App* app, BundleCommand* command) {
  app->add_option("folder", command->folder, "A folder that 'allocmark run' wrote")
      ->required()
      ->type_name("RUN");
  app->add_option("-o,--out", command->out, "The bundle: a .tar.zst, .tar.gz or .tar")
      ->required()
      ->type_name("FILE");
  add_force(app, &command->force);
  add_comparison(app, &command->baselines, &command->policy, &command->calibration);
  app->add_option("--sign", command->key,
                  "Sign it with this SSH key, or the .pub of one in ssh-agent, by ssh-keygen: "
                  "writes FILE.sig")
      ->type_name("KEY");
  app->footer(
      "\nThe bundle is checked as 'allocmark check' does. Exit codes: 0 it can be published, 1 a "
      "rule is broken,\n3 a rule could not be checked.\n");
}

void add_check(CLI::App* app, CheckCommand* command) {
  app->add_option("bundle", command->bundle,
                  "What 'allocmark bundle' wrote, or the folder it was unpacked to")
      ->required()
      ->type_name("BUNDLE");
  app->add_option("--format", command->format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str()
      ->type_name("F");
  app->add_option("--signers", command->signers,
                  "One of these must have signed it (BUNDLE.sig): lines with a name and a public "
                  "key, as of ssh-keygen")
      ->type_name("FILE");
  app->add_flag("--rerun", command->rerun,
                "Simulate every simulated cell again, not only those of at most 200000 events");
  app->add_option("--seconds", command->seconds,
                  "What making the traces again may take, and simulating the cells as much")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str()
      ->type_name("S");
  app->footer(
      "\nComplete? Consistent? Enough samples? Made from its raw results? The rules: "
      "results/BUNDLES.md.\nExit codes: 0 every rule is kept, 1 a rule is broken, 3 a rule could "
      "not be checked.\n");
}

}  // namespace allocmark
