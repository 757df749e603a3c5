// See child.h.
#include "harness/qualify/child.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/field_count.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "results/json.h"

namespace allocmark::qualify {
namespace {

using Json = nlohmann::json;

// A new field is sent below, both ways, or does not reach the other process. Limit and verdict of a
// figure are the judge's and stay here.
static_assert(field_count<TestSpec>() == 7 && field_count<TestAnswer>() == 7 &&
              field_count<Figure>() == 8);

[[noreturn]] void reject(const char* what, const Json::exception& error) {
  throw UsageError({.what = fmt::format("this is no {} of a test", what),
                    .where = "the pipe between 'allocmark qualify' and its tests",
                    .wanted = "",
                    .got = error.what(),
                    .next = "use: allocmark qualify"});
}

// Killed, and still there after so long.
constexpr std::chrono::seconds kKillPatience{10};

bool is_stuck(const ChildProcess& child) {
  const auto deadline = child.deadline();
  return deadline != std::chrono::steady_clock::time_point::max() &&
         std::chrono::steady_clock::now() > deadline + kKillPatience;
}

TestAnswer failure(std::string text) {
  TestAnswer answer;
  answer.failure = std::move(text);
  return answer;
}

}  // namespace

std::string to_json_line(const TestSpec& spec) {
  return json_text(Json{{"test", spec.test},
                        {"device", spec.device},
                        {"gpu", spec.gpu},
                        {"gpus", spec.gpus},
                        {"seconds", spec.seconds},
                        {"baseline_path", spec.baseline_path},
                        {"readings", spec.readings}});
}

TestSpec spec_from_json(std::string_view text) {
  try {
    const Json json = parse_json(text);
    TestSpec spec;
    json.at("test").get_to(spec.test);
    json.at("device").get_to(spec.device);
    json.at("gpu").get_to(spec.gpu);
    json.at("gpus").get_to(spec.gpus);
    json.at("seconds").get_to(spec.seconds);
    json.at("baseline_path").get_to(spec.baseline_path);
    json.at("readings").get_to(spec.readings);
    return spec;
  } catch (const Json::exception& error) {
    reject("specification", error);
  }
}

std::string to_json_line(const TestAnswer& answer) {
  Json figures = Json::array();
  for (const Figure& figure : answer.figures) {
    const bool known = figure.value && std::isfinite(*figure.value);
    figures.push_back({{"name", figure.name},
                       {"threshold", figure.threshold},
                       {"value", known ? Json(*figure.value) : Json()},
                       {"measured_ns", figure.measured_ns ? Json(*figure.measured_ns) : Json()},
                       {"note", valid_utf8(figure.note)},
                       {"optional", figure.optional}});
  }
  Json texts = Json::object();
  for (const auto& [name, text] : answer.texts) texts[name] = valid_utf8(text);
  return json_text(Json{{"figures", figures},
                        {"failure", valid_utf8(answer.failure)},
                        {"skip", valid_utf8(answer.skip)},
                        {"unsafe", answer.unsafe},
                        {"readings", answer.readings},
                        {"texts", texts},
                        {"virtual_s", answer.virtual_s}});
}

TestAnswer answer_from_json(std::string_view text) {
  try {
    const Json json = parse_json(text);
    TestAnswer answer;
    for (const Json& item : json.at("figures")) {
      Figure figure;
      item.at("name").get_to(figure.name);
      item.at("threshold").get_to(figure.threshold);
      if (!item.at("value").is_null()) figure.value = item.at("value").get<double>();
      if (!item.at("measured_ns").is_null()) {
        figure.measured_ns = item.at("measured_ns").get<double>();
      }
      item.at("note").get_to(figure.note);
      item.at("optional").get_to(figure.optional);
      answer.figures.push_back(std::move(figure));
    }
    json.at("failure").get_to(answer.failure);
    json.at("skip").get_to(answer.skip);
    json.at("unsafe").get_to(answer.unsafe);
    json.at("readings").get_to(answer.readings);
    json.at("texts").get_to(answer.texts);
    json.at("virtual_s").get_to(answer.virtual_s);
    return answer;
  } catch (const Json::exception& error) {
    reject("answer", error);
  }
}

ChildCommand child_command(const TestSpec& spec, const ChildPlan& plan) {
  std::vector<std::pair<std::string, std::string>> changes =
      runtime_environment(spec.device, plan.program_path);
  // On a simulated GPU only modelled time is judged.
  if (is_simulated(spec.device)) {
    changes.emplace_back("SIMCUDA_HOST_CACHES", "warm");
    changes.emplace_back("SIMCUDA_TIME_S", fmt::format("{:.0f}", plan.virtual_s));
  }
  if (plan.simulated_gpu_count > 0) {
    changes.emplace_back("SIMCUDA_DEVICES", std::to_string(plan.simulated_gpu_count));
  }
  return {.argv = {plan.program_path, "cell", std::to_string(getpid()), "--qualify"},
          .environment = environment_with(changes),
          .input = to_json_line(spec),
          .timeout_s = plan.limit_s};
}

TestAnswer answer_of(const ChildOutcome& outcome, double limit_s) {
  if (outcome.timed_out) {
    return failure(
        fmt::format("did not end within {:.0f} s: a call hangs, or --time-limit is too "
                    "short{}",
                    limit_s, quoted_output(outcome)));
  }
  if (outcome.signal_number != 0) {
    return failure(
        fmt::format("ended by {}{}", signal_name(outcome.signal_number), quoted_output(outcome)));
  }
  if (outcome.exit_code != 0 || outcome.result.empty()) {
    return failure(
        fmt::format("ended with exit code {}{}", outcome.exit_code, quoted_output(outcome)));
  }
  try {
    TestAnswer answer = answer_from_json(outcome.result.substr(0, outcome.result.find('\n')));
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
  std::vector<TimedAnswer> answers(specs.size());
  std::vector<std::unique_ptr<ChildProcess>> children;
  std::size_t running_count = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    try {
      children.push_back(std::make_unique<ChildProcess>(child_command(specs[i], plan)));
      ++running_count;
    } catch (const Error& error) {
      children.push_back(nullptr);
      answers[i].answer = failure(error.what());
    }
  }
  while (running_count > 0) {
    std::vector<pollfd> fds;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i] == nullptr) continue;
      if (const std::optional<ChildOutcome> outcome = children[i]->advance()) {
        answers[i] = {.answer = answer_of(*outcome, plan.limit_s),
                      .wall_s = outcome->wall_s,
                      .timed_out = outcome->timed_out};
        children[i].reset();
        --running_count;
        continue;
      }
      if (is_stuck(*children[i])) {
        answers[i] = {.answer = failure("could not be ended: it is stuck in the driver"),
                      .wall_s = plan.limit_s,
                      .timed_out = true};
        // Waiting for it, as its destructor would, could take for ever.
        (void)children[i].release();
        --running_count;
        continue;
      }
      const auto [result_fd, stderr_fd] = children[i]->poll_fds();
      fds.push_back({.fd = result_fd, .events = POLLIN, .revents = 0});
      fds.push_back({.fd = stderr_fd, .events = POLLIN, .revents = 0});
    }
    if (meanwhile) meanwhile();
    if (running_count == 0) break;
    const bool closing =
        std::all_of(fds.begin(), fds.end(), [](const pollfd& f) { return f.fd < 0; });
    poll(fds.data(), fds.size(), closing ? kPollMsClosing : kPollMsMax);
  }
  return answers;
}

}  // namespace allocmark::qualify
