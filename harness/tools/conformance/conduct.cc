#include "harness/tools/conformance/conduct.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "allocators/cuda/cuda_check.h"
#include "base/error.h"
#include "base/own_process.h"
#include "base/process_memory.h"
#include "harness/job/children.h"
#include "harness/job/job.h"
#include "harness/tools/conformance/race_detector.h"

namespace allocmark::conformance {
namespace {

constexpr std::size_t kAtOnce = 4;
// Two, so that the device argument means something.
constexpr const char* kDeviceCount = "2";

struct Question {
  std::string rule, conf;
  double limit_s = 0;
};

// A rule may take so many times as long as a call.
constexpr double kRuleLimits = 6;

// Looks again and again whether the same call of the plugin is under way, so that calls themselves
// need not read a clock.
class UnderWay {
 public:
  explicit UnderWay(const Scene& scene) : scene_(scene) {}
  // How long looks have found one under way and no other that began or ended; 0 where none is.
  double look_s() {
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t ended_count = scene_.ended_count();
    const std::uint64_t begun_count = scene_.begun_count();
    if (begun_count == ended_count || begun_count != begun_count_ || ended_count != ended_count_) {
      since_ = now;
    }
    begun_count_ = begun_count;
    ended_count_ = ended_count;
    return std::chrono::duration<double>(now - since_).count();
  }

 private:
  const Scene& scene_;
  std::uint64_t begun_count_ = 0, ended_count_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

// Says of a rule that is not done what it waits for, and ends the process.
class Watchdog {
 public:
  Watchdog(const Scene& scene, double limit_s, const Tell<Answer>& tell)
      : scene_(scene),
        limit_s_(limit_s),
        tell_(tell),
        thread_([this](const std::stop_token& done) { watch(done); }) {}
  Watchdog(Watchdog&&) = delete;

 private:
  void watch(const std::stop_token& done) {
    constexpr double kLookS = 0.1;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any changed;
    double left_s = (kRuleLimits - 0.5) * limit_s_;
    UnderWay call(scene_);
    double under_way_s = 0;
    while (left_s > 0 && under_way_s < limit_s_) {
      const std::chrono::duration<double> pause(kLookS);
      changed.wait_for(lock, done, pause, [] { return false; });
      if (done.stop_requested()) return;
      left_s -= kLookS;
      under_way_s = call.look_s();
    }
    const std::string seen =
        under_way_s >= limit_s_
            ? fmt::format("a call hangs: it has not returned for {:.0f} s, and {} returned before",
                          under_way_s, scene_.ended_count())
            : fmt::format("it was not done within {:.0f} s, and no call hangs: {} returned",
                          (kRuleLimits - 0.5) * limit_s_, scene_.ended_count());
    tell_({.outcome = Outcome::Fail, .seen = seen});
    tell_races(seen);
    _exit(0);
  }
  // A race may be why. The detector can hang as well, in the thread that hangs: then this is lost.
  void tell_races(const std::string& seen) {
    if (race_report_count() == 0) return;
    std::promise<void> told;
    std::thread([&] {
      const std::string races = race_text();
      if (!races.empty()) tell_({.outcome = Outcome::Fail, .seen = races + "; then " + seen});
      told.set_value();
    }).detach();
    (void)told.get_future().wait_for(std::chrono::seconds(5));
  }

  const Scene& scene_;
  const double limit_s_;
  const Tell<Answer>& tell_;
  std::jthread thread_;  // the last member: it sees the others
};

// The process ends by SIGALRM where it is not told otherwise by then; 0 takes that back.
void end_after(double seconds) { alarm(static_cast<unsigned>(std::ceil(seconds))); }

Answer hold(const Rule& rule, const Question& question, const Tell<Answer>& tell) {
  const UnimplementedCalls before = unimplemented_calls();
  Answer answer;
  try {
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(0));
    ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
    const std::uint64_t resident_bytes = process_memory(getpid()).resident_bytes;
    ProcessSettings settings = process_settings();
    end_after(question.limit_s);
    Scene scene(load_plugin(read_pluggable_conf(question.conf).conf), SimcuApi::find());
    scene.resident_bytes_before = resident_bytes;
    scene.settings_before = std::move(settings);
    if (scene.plugin.init != nullptr) scene.plugin.init(2);
    end_after(0);
    const Watchdog watchdog(scene, question.limit_s, tell);
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

// Registered before the library is loaded, it runs behind all that the library does at the end.
std::function<void()> last_word;
void say_last_word() {
  if (last_word) last_word();
}

void answer(const Question& question, const Tell<Answer>& tell) {
  const Rule* const rule = find_rule(question.rule);
  if (rule == nullptr) {
    throw InternalError({.what = "no rule of a plugin is called so",
                         .where = "the pipe between 'allocmark conformance' and its rules",
                         .got = question.rule,
                         .next = "use: allocmark conformance"});
  }
  if (rule->ends_process) std::atexit(say_last_word);
  const Answer held = hold(*rule, question, tell);
  tell(held);
  if (!rule->ends_process) return;
  // Once more, where what runs at a program's end was reached.
  last_word = [&] { tell(held); };
  end_after(question.limit_s);
  std::exit(0);
}

constexpr Job<Question, Answer> kConformance{
    .name = "conformance", .what = "the rule", .run = answer, .opens_device = false};

Answer answer_of(const Rule& rule, const ChildOutcome& outcome, double limit_s) {
  const auto failed = [&](std::string seen) {
    return Answer{.outcome = Outcome::Fail, .seen = std::move(seen) + last_line(outcome)};
  };
  if (!outcome.lost.empty()) {
    throw EnvironmentError(
        {.what = "a rule's process " + outcome.lost, .where = "allocmark conformance"});
  }
  const JobEnd end = end_of(outcome);
  std::vector<Answer> answers;
  try {
    std::string_view text = outcome.result;
    answers = take_answers(kConformance, text);
  } catch (const Error&) {
    // The plugin wrote to the pipe.
  }
  const bool is_cut = rule.ends_process && answers.size() == 1;
  if (!answers.empty() && end == JobEnd::Done && !is_cut) return answers.back();
  // With an answer the rule was done, and what went wrong came after main().
  const bool at_end = rule.ends_process && !answers.empty();
  if (end == JobEnd::TimedOut || outcome.signal_number == SIGALRM) {
    return failed(fmt::format("{} within {:.0f} s",
                              at_end ? "the process did not end" : "the library was not loaded",
                              limit_s));
  }
  if (end == JobEnd::Crashed) {
    return failed(fmt::format("the process crashed{}: {}", at_end ? " when it ended" : "",
                              signal_name(outcome.signal_number)));
  }
  if (at_end && end == JobEnd::Done) {
    return failed(
        "the library ended the process by itself, with exit code 0: what the program had to do and "
        "to write at its end was lost");
  }
  if (at_end) return failed(fmt::format("the process ended with exit code {}", outcome.exit_code));
  return failed(fmt::format("a call ended the process (exit code {})", outcome.exit_code));
}

}  // namespace

std::vector<Finding> conduct(const Setup& setup) {
  std::vector<Finding> findings;
  for (const Rule& rule : all_rules()) {
    const bool is_named = std::ranges::find(setup.rules, rule.name) != setup.rules.end();
    if (setup.rules.empty() || is_named) findings.push_back({.rule = &rule, .answer = {}});
  }
  std::vector<Finding*> order;
  for (Finding& finding : findings) order.push_back(&finding);
  std::ranges::stable_partition(order,
                                [](const Finding* each) { return each->rule->starts_first; });
  std::vector<ChildCommand> commands;
  for (const Finding* each : order) {
    commands.push_back(command_of(
        kConformance,
        {.rule = std::string(each->rule->name), .conf = setup.conf, .limit_s = setup.limit_s},
        {.device = setup.device,
         .environment = {{"SIMCUDA_DEVICES", kDeviceCount}},
         .timeout_s = kRuleLimits * setup.limit_s}));
  }
  run_children(commands, kAtOnce, [&](std::size_t at, const ChildOutcome& outcome) {
    order[at]->answer = answer_of(*order[at]->rule, outcome, setup.limit_s);
  });
  return findings;
}

}  // namespace allocmark::conformance

namespace allocmark {

extern const JobEntry kConformanceJob;
constinit const JobEntry kConformanceJob = job_entry<conformance::kConformance>();

}  // namespace allocmark
