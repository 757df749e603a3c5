// 'allocmark check BUNDLE' says whether a bundle can be relied on. It does not measure.

#include <cstdio>
#include <string>

#include <fmt/format.h>
#include "base/own_process.h"
#include "harness/core/bundled/bundle_files.h"
#include "harness/core/run/environment.h"
#include "harness/shell/options.h"
#include "harness/shell/registry.h"
#include "harness/tools/bundle/bundle_check.h"
#include "harness/tools/bundle/bundle_signature.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

struct CheckCommand {
  std::string bundle;  // an archive, or the folder it was unpacked to
  std::string format = "table";
  std::string signers;  // one of them must have signed it; empty = nobody need
  bool rerun = false;
  double seconds = 20;
};

void add_check(CLI::App* app, CheckCommand* command) {
  add_value(app, "bundle", command->bundle, "BUNDLE",
            "What 'allocmark bundle' wrote, or the folder it was unpacked to")
      ->required();
  add_format(app, &command->format, "table or json", {"table", "json"});
  add_value(app, "--signers", command->signers, "FILE",
            "File with a name and a public key a line, as ssh-keygen has it; one of them must have "
            "signed the bundle (BUNDLE.sig)");
  app->add_flag("--rerun", command->rerun,
                "Simulate every simulated cell again, not only those of at most 200000 events");
  add_value(app, "--seconds", command->seconds, "S",
            "Time limit for making the traces again, and the same again for simulating the cells")
      ->check(number_range(1.0, 1e6))
      ->capture_default_str();
  app->footer(
      "\nComplete? Consistent? Enough samples? Made from its raw results? The rules: "
      "results/BUNDLES.md.\nExit codes: 0 every rule is kept, 1 a rule is broken, 3 a rule could "
      "not be checked.\n");
}

// Whether one of the signers made it; says so, beside a document that is JSON.
bool is_signed(const CheckCommand& command) {
  const Signature signature = find_signer(command.bundle, command.signers);
  const bool good = !signature.signer.empty();
  fmt::print(command.format == "json" ? stderr : stdout, "signature: {}\n",
             good ? "good, by " + printable(signature.signer) : "BROKEN: " + signature.problem);
  return good;
}

ExitCode check_command(const CheckCommand& command) {
  const bool signed_as_wanted = command.signers.empty() || is_signed(command);
  const BundleCheck check =
      check_bundle(read_bundle(command.bundle), {.version = version_text(),
                                                 .program_path = own_program_path(),
                                                 .rerun_all = command.rerun,
                                                 .seconds = command.seconds});
  fmt::print("{}", command.format == "json" ? render_check_json(check) : render_check(check));
  return signed_as_wanted ? check.exit_code : ExitCode::Regression;
}

}  // namespace

extern const CommandEntry kCheckCommand;
constinit const CommandEntry kCheckCommand{
    "check", "Say whether a bundle can be relied on",
    [](CLI::App* app) { return bind_command(app, add_check, check_command); }};

}  // namespace allocmark
