#include "harness/tools/conformance/conduct.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "allocators/cuda/cuda_check.h"
#include "base/error.h"
#include "base/own_process.h"
#include "harness/job/children.h"
#include "harness/job/job.h"
#include "results/json.h"

namespace allocmark::conformance {
namespace {

constexpr std::size_t kAtOnce = 4;
// Two, so that the device argument means something.
constexpr const char* kDeviceCount = "2";

Answer hold(const Rule& rule, const std::string& conf) {
  const UnimplementedCalls before = unimplemented_calls();
  Answer answer;
  try {
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(0));
    ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
    Scene scene(load_plugin(read_pluggable_conf(conf).conf), SimcuApi::find());
    if (scene.plugin.init != nullptr) scene.plugin.init(2);
    answer.seen = rule.check(scene);
  } catch (const Broken& broken) {
    answer = {.outcome = Outcome::Fail, .seen = broken.seen};
  } catch (const NotApplicable& reason) {
    answer = {.outcome = Outcome::NotApplicable, .seen = reason.reason};
  } catch (const std::exception& thrown) {
    answer = {.outcome = Outcome::Fail,
              .seen = fmt::format("a call threw an exception: {}", thrown.what())};
  } catch (...) {
    answer = {.outcome = Outcome::Fail, .seen = "a call threw an exception"};
  }
  const UnimplementedCalls after = unimplemented_calls();
  if (after.count != before.count) answer.missing_calls = after.names;
  return answer;
}

std::string last_line(const ChildOutcome& outcome) {
  std::string text = last_output(outcome);
  const std::size_t newline = text.rfind('\n');
  if (newline != std::string::npos) text.erase(0, newline + 1);
  return text.empty() ? "" : "; its last words: " + text;
}

struct Question {
  std::string rule, conf;
};

void answer(const Question& question, const Tell<Answer>& tell) {
  const Rule* const rule = find_rule(question.rule);
  if (rule == nullptr) {
    throw InternalError({.what = "no rule of a plugin is called so",
                         .where = "the pipe between 'allocmark conformance' and its rules",
                         .wanted = "",
                         .got = question.rule,
                         .next = "use: allocmark conformance"});
  }
  tell(hold(*rule, question.conf));
}

constexpr Job<Question, Answer> kConformance{
    .name = "conformance", .what = "the rule", .run = answer, .opens_device = false};

Answer answer_of(const ChildOutcome& outcome, double limit_s) {
  const auto failed = [&](std::string seen) {
    return Answer{.outcome = Outcome::Fail, .seen = std::move(seen) + last_line(outcome)};
  };
  if (!outcome.lost.empty()) {
    throw EnvironmentError({.what = "a rule's process " + outcome.lost,
                            .where = "allocmark conformance",
                            .wanted = "",
                            .got = "",
                            .next = ""});
  }
  const JobEnd end = end_of(outcome);
  if (end == JobEnd::TimedOut) {
    return failed(fmt::format("no answer within {:.0f} s: a call hangs", limit_s));
  }
  if (end == JobEnd::Crashed) {
    return failed("the process crashed: " + signal_name(outcome.signal_number));
  }
  try {
    std::string_view text = outcome.result;
    const std::vector<Answer> answers = take_answers(kConformance, text);
    if (!answers.empty() && end == JobEnd::Done) return answers.back();
  } catch (const Error&) {
    // The plugin wrote to the pipe.
  }
  return failed(fmt::format("a call ended the process (exit code {})", outcome.exit_code));
}

}  // namespace

std::vector<Finding> conduct(const Setup& setup) {
  std::vector<Finding> findings;
  std::vector<ChildCommand> commands;
  for (const Rule& rule : all_rules()) {
    const bool is_named = std::ranges::find(setup.rules, rule.name) != setup.rules.end();
    if (!setup.rules.empty() && !is_named) continue;
    findings.push_back({.rule = &rule, .answer = {}});
    commands.push_back(command_of(kConformance,
                                  {.rule = std::string(rule.name), .conf = setup.conf},
                                  {.program_path = setup.program_path,
                                   .device = setup.device,
                                   .environment = {{"SIMCUDA_DEVICES", kDeviceCount}},
                                   .timeout_s = setup.limit_s}));
  }
  run_children(commands, kAtOnce, [&](std::size_t at, const ChildOutcome& outcome) {
    findings[at].answer = answer_of(outcome, setup.limit_s);
  });
  return findings;
}

}  // namespace allocmark::conformance

namespace allocmark {

extern const JobEntry kConformanceJob;
constinit const JobEntry kConformanceJob = job_entry<conformance::kConformance>();

}  // namespace allocmark
