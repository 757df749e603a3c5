// 'allocmark check BUNDLE' says whether a bundle can be relied on. It does not measure.
#include <fmt/format.h>
#include "harness/bundle/bundle.h"
#include "harness/bundle/bundle_check.h"
#include "harness/cli/commands.h"
#include "harness/cli/parse_report.h"
#include "harness/run/child_process.h"
#include "harness/run/environment.h"

namespace allocmark {
namespace {

ExitCode check_command(const CheckCommand& command) {
  const BundleCheck check =
      check_bundle(read_bundle(command.bundle), {.version = version_text(),
                                                 .program_path = own_program_path(),
                                                 .rerun_all = command.rerun,
                                                 .seconds = command.seconds});
  fmt::print("{}", command.format == "json" ? render_check_json(check) : render_check(check));
  return check.exit_code;
}

}  // namespace

extern const CommandEntry kCheckCommand;
constinit const CommandEntry kCheckCommand{
    "check", "Say whether a bundle can be relied on",
    [](CLI::App* app) { return bind_command(app, add_check, check_command); }};

}  // namespace allocmark
