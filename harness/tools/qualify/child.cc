// See child.h.
#include "harness/tools/qualify/child.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "harness/core/device/runtime_select.h"
#include "harness/job/children.h"
#include "harness/tools/qualify/run_test.h"

namespace allocmark::qualify {
namespace {

TestAnswer failure(std::string text) {
  TestAnswer answer;
  answer.failure = std::move(text);
  return answer;
}

constexpr Job<TestSpec, TestAnswer> kTest{
    .name = "qualify",
    .what = "the test",
    .run = [](const TestSpec& spec, const Tell<TestAnswer>& tell) { tell(run_test(spec)); },
    .opens_device = false};

}  // namespace

JobPlace place_of(const TestSpec& spec, const ChildPlan& plan) {
  JobPlace place{.program_path = plan.program_path, .device = spec.device};
  // On a simulated GPU only modelled time is judged.
  if (is_simulated(spec.device)) {
    place.environment.emplace_back("SIMCUDA_HOST_CACHES", "warm");
    place.environment.emplace_back("SIMCUDA_TIME_S", fmt::format("{:.0f}", plan.virtual_s));
  }
  if (plan.simulated_gpu_count > 0) {
    place.environment.emplace_back("SIMCUDA_DEVICES", std::to_string(plan.simulated_gpu_count));
  }
  place.timeout_s = plan.limit_s;
  return place;
}

TestAnswer answer_of(const ChildOutcome& outcome, double limit_s) {
  if (outcome.lost.empty() && outcome.timed_out) {
    return failure(
        fmt::format("did not end within {:.0f} s: a call hangs, or --time-limit is too "
                    "short{}",
                    limit_s, quoted_output(outcome)));
  }
  if (end_of(outcome) != JobEnd::Done) return failure(end_text(outcome));
  try {
    std::string_view text = outcome.result;
    const std::vector<TestAnswer> answers = take_answers(kTest, text);
    if (answers.empty()) return failure("ended with exit code 0" + quoted_output(outcome));
    TestAnswer answer = answers.front();
    if (!answer.failure.empty()) answer.failure += quoted_output(outcome);
    return answer;
  } catch (const Error& error) {
    return failure(error.what());
  }
}

TestAnswer ask_child(const TestSpec& spec, const ChildPlan& plan) {
  return ask_children({spec}, plan).front().answer;
}

std::vector<TimedAnswer> ask_children(const std::vector<TestSpec>& specs, const ChildPlan& plan,
                                      const std::function<void()>& meanwhile) {
  std::vector<ChildCommand> commands;
  for (const TestSpec& spec : specs) {
    commands.push_back(command_of(kTest, spec, place_of(spec, plan)));
  }
  std::vector<TimedAnswer> answers(specs.size());
  const auto keep = [&](std::size_t at, const ChildOutcome& outcome) {
    const bool is_stuck = outcome.timed_out && !outcome.lost.empty();
    answers[at] = {.answer = answer_of(outcome, plan.limit_s),
                   .wall_s = is_stuck ? plan.limit_s : outcome.wall_s,
                   .timed_out = outcome.timed_out};
  };
  run_children(commands, commands.size(), keep, meanwhile);
  return answers;
}

}  // namespace allocmark::qualify

namespace allocmark {

extern const JobEntry kQualifyJob;
constinit const JobEntry kQualifyJob = job_entry<qualify::kTest>();

}  // namespace allocmark
