// See children.h.
#include "harness/job/children.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"

namespace allocmark {
namespace {

using Clock = std::chrono::steady_clock;

// Killed, and still there after so long.
constexpr std::chrono::seconds kKillPatience{10};

// A child with its place among the commands; no child where it could not be started.
struct Running {
  std::size_t at = 0;
  std::unique_ptr<ChildProcess> child = {};
  std::string lost = {};
};

Running start(const std::vector<ChildCommand>& commands, std::size_t at) {
  try {
    return {.at = at, .child = std::make_unique<ChildProcess>(commands[at])};
  } catch (const Error& error) {
    return {.at = at, .lost = error.what()};
  }
}

// The outcome once there is one, or none is to be had.
std::optional<ChildOutcome> ended(Running& running) {
  ChildOutcome lost;
  lost.lost = running.lost;
  if (!running.child) return lost;
  if (std::optional<ChildOutcome> outcome = running.child->advance()) return outcome;
  const Clock::time_point deadline = running.child->deadline();
  if (deadline == Clock::time_point::max() || Clock::now() < deadline + kKillPatience) return {};
  lost.lost = "could not be ended: it is stuck in the driver";
  lost.timed_out = true;
  // Waiting for it, as its destructor would, could take for ever.
  (void)running.child.release();
  return lost;
}

}  // namespace

void run_children(const std::vector<ChildCommand>& commands, std::size_t at_once,
                  const std::function<void(std::size_t, const ChildOutcome&)>& on_end,
                  const std::function<void()>& meanwhile) {
  std::vector<Running> running;
  for (std::size_t next = 0; next < commands.size() || !running.empty();) {
    while (running.size() < at_once && next < commands.size()) {
      running.push_back(start(commands, next++));
    }
    std::erase_if(running, [&](Running& each) {
      const std::optional<ChildOutcome> outcome = ended(each);
      if (outcome) on_end(each.at, *outcome);
      return outcome.has_value();
    });
    meanwhile();
    if (running.empty()) continue;
    std::vector<const ChildProcess*> children;
    for (const Running& each : running) children.push_back(each.child.get());
    wait_for_news(children);
  }
}

}  // namespace allocmark
