// 'allocmark check BUNDLE' says whether a bundle can be relied on. It does not measure.
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include "base/own_process.h"
#include "harness/bundle/bundle.h"
#include "harness/bundle/bundle_check.h"
#include "harness/cli/bundle_signature.h"
#include "harness/cli/commands.h"
#include "harness/cli/parse_report.h"
#include "harness/run/environment.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

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
