#include "harness/tools/simcheck/simcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "harness/job/job.h"

namespace allocmark::simcheck {
namespace {

// How the line begins with which a side says why it goes no further.
constexpr std::string_view kBroken = "! ";
// Nothing of the device's: somebody stopped the process, or the machine was too slow.
constexpr std::string_view kNoAnswer = "! no answer in time";

constexpr allocmark::Job<std::vector<Job>, std::string> kSide{
    .name = "simcheck", .what = "the check", .run = run_jobs};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string ending_of(const ChildOutcome& outcome) {
  if (outcome.timed_out) return std::string(kNoAnswer.substr(kBroken.size()));
  return end_text(outcome);
}

// Texts of the jobs, cut at the lines ".".
std::vector<std::string> texts_of(const ChildOutcome& outcome) {
  std::vector<std::string> texts(1);
  std::string_view rest = outcome.result;
  // A line that was cut says nothing.
  if (outcome.timed_out) rest = rest.substr(0, rest.rfind('\n') + 1);
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    if (line == ".") {
      texts.emplace_back();
    } else {
      texts.back() += std::string(line) + "\n";
    }
  }
  std::string reason = ending_of(outcome);
  std::ranges::replace(reason, '\n', ' ');
  if (reason.empty()) {
    texts.pop_back();
  } else {
    texts.back() += fmt::format("{}{}\n", kBroken, reason);
  }
  return texts;
}

std::optional<Difference> first_difference(const Job& job, std::string_view on,
                                           std::string_view against, Report& report) {
  std::uint64_t failures = 0;
  for (std::size_t event = 0; !on.empty() || !against.empty(); ++event) {
    const std::string_view ours = next_line(on);
    const std::string_view theirs = next_line(against);
    if (ours == kNoAnswer || theirs == kNoAnswer) {
      ++report.unanswered_count;
      return std::nullopt;
    }
    if (ours != theirs) {
      const bool behind = event >= job.program.events.size();
      return Difference{.event = event,
                        .row = behind ? "the end" : to_row(job.program.events[event]),
                        .on = ours.empty() ? "nothing" : std::string(ours),
                        .against = theirs.empty() ? "nothing" : std::string(theirs),
                        .failures_before = failures};
    }
    if (ours.starts_with(kBroken)) {
      ++report.unanswered_count;
      return std::nullopt;
    }
    ++report.answer_count;
    if (ours.starts_with("oom")) {
      ++failures;
      ++report.failure_count;
    }
  }
  return std::nullopt;
}

std::optional<Difference> difference_alone(const Lab& lab, const Job& job) {
  const Report report = compare(lab, {job});
  if (report.differences.empty()) return std::nullopt;
  return report.differences.front();
}

}  // namespace

Lab make_lab(std::string on, std::string against, double timeout_s) {
  return [devices = std::vector{on, against}, timeout_s](int side, const std::vector<Job>& jobs) {
    const std::string& device = devices[static_cast<std::size_t>(side)];
    const ChildOutcome outcome =
        run_child(command_of(kSide, jobs, {.device = device, .timeout_s = timeout_s}));
    if (outcome.result.empty() && outcome.exit_code == static_cast<int>(ExitCode::NotReady)) {
      throw EnvironmentError({.what = "the check cannot run on " + device,
                              .got = last_output(outcome),
                              .next = "name two devices that are there: --on, --against"});
    }
    return texts_of(outcome);
  };
}

Report compare(const Lab& lab, const std::vector<Job>& jobs) {
  std::future<std::vector<std::string>> other =
      std::async(std::launch::async, [&] { return lab(1, jobs); });
  const std::vector<std::string> on = lab(0, jobs);
  const std::vector<std::string> against = other.get();
  Report report;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    // A process ended before this job: the one that it ended in says why.
    if (job >= on.size() || job >= against.size()) {
      report.unanswered_count += jobs.size() - job;
      break;
    }
    std::optional<Difference> difference =
        first_difference(jobs[job], on[job], against[job], report);
    if (!difference) continue;
    difference->job = job;
    report.differences.push_back(std::move(*difference));
  }
  return report;
}

std::optional<Job> shrink(const Lab& lab, Job job, std::uint64_t attempt_max) {
  std::optional<Difference> found = difference_alone(lab, job);
  if (!found) return std::nullopt;
  std::vector<Event>& events = job.program.events;
  events.resize(std::min(events.size(), found->event + 1));
  std::uint64_t attempts = 0;
  for (std::size_t length = events.size() / 2; length > 0; length /= 2) {
    for (std::size_t begin = 0; begin + length <= events.size();) {
      if (++attempts > attempt_max) return job;
      Job shorter = job;
      const auto at = shorter.program.events.begin() + static_cast<std::ptrdiff_t>(begin);
      shorter.program.events.erase(at, at + static_cast<std::ptrdiff_t>(length));
      shorter.program.events = without_strangers(shorter.program.events);
      found = difference_alone(lab, shorter);
      if (found) {
        shorter.program.events.resize(std::min(shorter.program.events.size(), found->event + 1));
        job = std::move(shorter);
      } else {
        begin += length;
      }
    }
  }
  return job;
}

}  // namespace allocmark::simcheck

namespace allocmark {

extern const JobEntry kSimcheckJob;
constinit const JobEntry kSimcheckJob = job_entry<simcheck::kSide>();

}  // namespace allocmark
