#include "harness/conformance/conduct.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "allocators/cuda/cuda_check.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/job/child_process.h"
#include "results/json.h"

namespace allocmark::conformance {
namespace {

using Json = nlohmann::json;

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

Answer answer_of(const ChildOutcome& outcome, double limit_s) {
  const auto failed = [&](std::string seen) {
    return Answer{.outcome = Outcome::Fail, .seen = std::move(seen) + last_line(outcome)};
  };
  if (outcome.timed_out)
    return failed(fmt::format("no answer within {:.0f} s: a call hangs", limit_s));
  if (outcome.signal_number != 0) {
    return failed("the process crashed: " + signal_name(outcome.signal_number));
  }
  const Json json = parse_json(outcome.result);
  if (!json.is_object() || !json.contains("outcome") || outcome.exit_code != 0) {
    return failed(fmt::format("a call ended the process (exit code {})", outcome.exit_code));
  }
  return {.outcome = static_cast<Outcome>(json.value("outcome", 1)),
          .seen = json.value("seen", ""),
          .missing_calls = json.value("missing_calls", "")};
}

struct Running {
  std::unique_ptr<ChildProcess> child;
  std::size_t index = 0;
};

void wait_for_some(const std::vector<Running>& running) {
  std::vector<pollfd> fds;
  bool closing = false;
  for (const Running& each : running) {
    const auto [result_fd, stderr_fd] = each.child->poll_fds();
    fds.push_back({.fd = result_fd, .events = POLLIN, .revents = 0});
    fds.push_back({.fd = stderr_fd, .events = POLLIN, .revents = 0});
    closing = closing || each.child->closing();
  }
  (void)poll(fds.data(), fds.size(), closing ? 1 : 50);
}

}  // namespace

std::string answer_line(const std::string& input) {
  const pid_t own = getpid();
  const std::size_t newline = input.find('\n');
  const Rule* const rule = find_rule(input.substr(0, newline));
  if (rule == nullptr || newline == std::string::npos) {
    throw InternalError({.what = "no rule of a plugin is called so",
                         .where = "the pipe between 'allocmark conformance' and its rules",
                         .wanted = "",
                         .got = input.substr(0, newline),
                         .next = "use: allocmark conformance"});
  }
  const Answer answer = hold(*rule, input.substr(newline + 1));
  if (getpid() != own) return {};
  return json_text(Json{{"outcome", static_cast<int>(answer.outcome)},
                        {"seen", valid_utf8(answer.seen)},
                        {"missing_calls", answer.missing_calls}}) +
         "\n";
}

std::vector<Finding> conduct(const Setup& setup) {
  std::vector<std::pair<std::string, std::string>> changes = runtime_environment(setup.device);
  changes.emplace_back("SIMCUDA_DEVICES", kDeviceCount);
  const std::vector<std::string> environment = environment_with(changes);
  std::vector<Finding> findings;
  for (const Rule& rule : all_rules()) {
    const bool is_named = std::ranges::find(setup.rules, rule.name) != setup.rules.end();
    if (setup.rules.empty() || is_named) findings.push_back({.rule = &rule, .answer = {}});
  }
  std::vector<Running> running;
  std::size_t next = 0;
  while (next < findings.size() || !running.empty()) {
    while (running.size() < kAtOnce && next < findings.size()) {
      const ChildCommand command{
          .argv = {setup.program_path, "cell", std::to_string(getpid()), "--conformance"},
          .environment = environment,
          .input = fmt::format("{}\n{}", findings[next].rule->name, setup.conf),
          .timeout_s = setup.limit_s};
      running.push_back({.child = std::make_unique<ChildProcess>(command), .index = next++});
    }
    std::erase_if(running, [&](Running& each) {
      const std::optional<ChildOutcome> outcome = each.child->advance();
      if (outcome) findings[each.index].answer = answer_of(*outcome, setup.limit_s);
      return outcome.has_value();
    });
    if (!running.empty()) wait_for_some(running);
  }
  return findings;
}

}  // namespace allocmark::conformance
