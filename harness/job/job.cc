// See job.h: the parent's side.
#include "harness/job/job.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>
#include "base/error.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"

namespace allocmark {
namespace {

// A request may hold programs of millions of events.
constexpr JsonLimits kPipeLimits{.depth_max = 64, .value_count_max = 100'000'000};

[[noreturn]] void throw_garbled(std::string_view what, std::string got) {
  throw InternalError({.what = fmt::format("this is no message of {}", what),
                       .where = "the pipe between two processes of allocmark",
                       .wanted = "what this version writes",
                       .got = std::move(got),
                       .next = "build all programs from the same version"});
}

}  // namespace

JobEnd end_of(const ChildOutcome& outcome) {
  if (outcome.timed_out) return JobEnd::TimedOut;
  if (outcome.ended_by_us) return JobEnd::Stopped;
  if (outcome.signal_number != 0) return JobEnd::Crashed;
  if (!outcome.lost.empty()) return JobEnd::Failed;
  return outcome.exit_code == 0 ? JobEnd::Done : JobEnd::Failed;
}

std::string end_text(const ChildOutcome& outcome) {
  if (!outcome.lost.empty()) return outcome.lost;
  switch (end_of(outcome)) {
    case JobEnd::Done:
      return {};
    case JobEnd::Stopped:
      return "interrupted";
    case JobEnd::TimedOut:
    case JobEnd::Crashed:
    case JobEnd::Failed:
      break;
  }
  return end_words(outcome) + quoted_output(outcome);
}

namespace job {

std::string text_of(const Json& json) { return json_text(json); }

Json json_of(std::string_view text) { return parse_json(text, nullptr, kPipeLimits); }

void refuse(std::string_view what, const std::exception& error) {
  throw_garbled(what, json_reason(error));
}

ChildCommand command(std::string_view name, std::string request, const JobPlace& place) {
  const std::string program_path =
      place.program_path.empty() ? own_program_path() : place.program_path;
  std::vector<std::pair<std::string, std::string>> changes;
  if (!place.device.empty()) changes = runtime_environment(place.device, program_path);
  changes.insert(changes.end(), place.environment.begin(), place.environment.end());
  std::vector<std::string> argv{program_path, "cell", std::to_string(getpid())};
  // Other builds of this program, too, start cells without an option.
  if (name != "cell") argv.insert(argv.end(), {fmt::format("--{}", name), place.device});
  return {.argv = std::move(argv),
          .environment = environment_with(changes),
          .input = std::move(request),
          .timeout_s = place.timeout_s,
          .takes_turns = place.takes_turns,
          .handed_fd = place.handed_fd};
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return {};
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

void throw_if_failed(const ChildOutcome& outcome, std::string_view what, bool has_answered) {
  if (end_of(outcome) != JobEnd::Done) rethrow(outcome, what);
  if (!has_answered) throw_garbled(what, "nothing");
}

}  // namespace job
}  // namespace allocmark
