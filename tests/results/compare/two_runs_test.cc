// Goal: two runs of the same thing that no calibration bounds differ by what the built-in bounds
// allow, and by more beside other work. Method: quiet runs, one of which is slower.
#include <optional>
#include <string>

#include "results/compare/compare.h"
#include "results/derived.h"
#include "tests/catch.h"
#include "tests/support/quiet_runs.h"

using namespace allocmark;
using namespace allocmark::quiet;

TEST_CASE("without a calibration built-in bounds stand for it, unless the policy wants one") {
  RunFile slow = quiet_run();
  for (CellResult& cell : slow.cells) slow_down(cell, 1.08);
  const auto verdicts = [&](const ComparePolicy& policy) {
    return compare_runs(side("BASE", quiet_run()), side("NEW", slow), policy, std::nullopt);
  };
  CHECK(verdicts({}).exit_code == ExitCode::Regression);
  CHECK(contains(text_of(verdicts({})), "not calibrated"));
  const ComparePolicy strict{.calibration_required = true};
  CHECK(count(verdicts(strict), Verdict::Undecided) == 3);
  CHECK(verdicts(strict).exit_code == ExitCode::Pass);
  slow = quiet_run();
  for (CellResult& cell : slow.cells) slow_down(cell, 1.05);
  CHECK(verdicts({}).exit_code == ExitCode::Pass);
  CHECK(verdicts({.default_bounds = false}).exit_code == ExitCode::Regression);
}

TEST_CASE("without a calibration a run beside other work may take twice as long") {
  const auto verdicts = [](double factor, const std::optional<Calibration>& calibration) {
    RunFile slow = quiet_run();
    slow.environment.warnings = {std::string(kOtherWorkWarning) + ": load average 2.7 on 2 cores"};
    for (CellResult& cell : slow.cells) slow_down(cell, factor);
    return compare_runs(side("BASE", quiet_run()), side("NEW", slow), {}, calibration);
  };
  CHECK(verdicts(1.31, std::nullopt).exit_code == ExitCode::Pass);
  CHECK(count(verdicts(1.31, std::nullopt), Verdict::Undecided) == 3);
  CHECK(contains(text_of(verdicts(1.31, std::nullopt)), "beside other work"));
  CHECK(count(verdicts(2.2, std::nullopt), Verdict::Worse) == 3);
  CHECK(count(verdicts(1.31, quiet_calibration()), Verdict::Worse) == 3);
}
