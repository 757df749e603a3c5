// A job: what another process of this program does for this one. A request flows in, on the
// child's stdin; answers flow out of it on descriptor 3, a line each; what it throws is thrown
// here. How the process is started, which CUDA runtime and device it gets, and what its end means
// is decided in this room alone.
//
//   inline constexpr Job<SearchSpec, SearchResult> kSearch{.name = "search", ...};
//   extern const JobEntry kSearchJob;  // its row; its name: in the room's JOBS
//   constinit const JobEntry kSearchJob = job_entry<kSearch>();
//   SearchResult result = ask_job(kSearch, spec, {.device = "sim:h200"});
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/job/child_process.h"
#include "harness/job/interrupt.h"
#include "harness/job/pack.h"

namespace allocmark {

// Hands an answer to the parent, in the child.
template <typename Answer>
using Tell = std::function<void(const Answer&)>;

// Requests and answers are structs (pack.h), or std::string: text that passes as it is.
template <typename Request, typename Answer>
struct Job {
  std::string_view name;  // "search", as 'allocmark cell' gets it
  std::string_view what;  // as messages call it: "the search"
  // In the child.
  void (*run)(const Request& request, const Tell<Answer>& tell) = nullptr;
  // Before it runs, the place's device is made the current one.
  bool opens_device = true;
};

// Variables and their values.
using JobEnvironment = std::vector<std::pair<std::string, std::string>>;
// For jobs whose host time nobody takes: what driver calls do to the host's caches costs half of a
// simulated cell's time.
inline const JobEnvironment::value_type kWarmHostCaches{"SIMCUDA_HOST_CACHES", "warm"};

// Where a job's process runs.
struct JobPlace {
  std::string program_path = {};    // what is started; empty: this program
  std::string device = {};          // whose runtime it gets
  JobEnvironment environment = {};  // besides this process's own
  double timeout_s = 0;             // 0 = none
  bool takes_turns = false;         // pass_turns.h
  int handed_fd = -1;               // handed_file.h
};

// A job without its types, as the child finds it by its name.
struct JobEntry {
  std::string_view name;
  bool opens_device;
  void (*serve)(std::string_view request, const Tell<std::string>& send);
};

// How a process ended, apart from what it answered.
enum class JobEnd : std::uint8_t { Done, Stopped, TimedOut, Crashed, Failed };
[[nodiscard]] JobEnd end_of(const ChildOutcome& outcome);
// "ended by SIGSEGV (Segmentation fault); its last output: ...", "ended with exit code 4; ...";
// empty where it is done.
[[nodiscard]] std::string end_text(const ChildOutcome& outcome);

namespace job {

[[nodiscard]] std::string text_of(const Json& json);
// Throws InternalError where the text is no JSON.
[[nodiscard]] Json json_of(std::string_view text);
[[noreturn]] void refuse(std::string_view what, const std::exception& error);
[[nodiscard]] ChildCommand command(std::string_view name, std::string request,
                                   const JobPlace& place);
// Up to and without the next line end; empty where there is no whole line. Takes it away.
[[nodiscard]] std::string_view take_line(std::string_view& text);
void throw_if_failed(const ChildOutcome& outcome, std::string_view what, bool has_answered);

template <typename Value>
[[nodiscard]] std::string to_text(const Value& value) {
  if constexpr (std::is_same_v<Value, std::string>) {
    return value;
  } else {
    return text_of(pack(value)) + "\n";
  }
}

// Throws InternalError where the text is no such value.
template <typename Value>
[[nodiscard]] Value from_text(std::string_view text, std::string_view what) {
  if constexpr (std::is_same_v<Value, std::string>) {
    return std::string(text);
  } else {
    try {
      return unpack<Value>(json_of(text));
    } catch (const Json::exception& error) {
      refuse(what, error);
    }
  }
}

template <const auto& kJob, typename Request, typename Answer>
void serve(const Job<Request, Answer>& /*types*/, std::string_view request,
           const Tell<std::string>& send) {
  kJob.run(from_text<Request>(request, kJob.what),
           [&](const Answer& answer) { send(to_text(answer)); });
}

}  // namespace job

template <const auto& kJob>
[[nodiscard]] constexpr JobEntry job_entry() {
  return {.name = kJob.name,
          .opens_device = kJob.opens_device,
          .serve = [](std::string_view request, const Tell<std::string>& send) {
            job::serve<kJob>(kJob, request, send);
          }};
}

// For those who start and watch the process themselves.
template <typename Request, typename Answer>
[[nodiscard]] ChildCommand command_of(const Job<Request, Answer>& job,
                                      const std::type_identity_t<Request>& request,
                                      const JobPlace& place) {
  return job::command(job.name, job::to_text(request), place);
}

// Takes the whole lines off `text`. Throws InternalError where one is no answer of the job.
template <typename Request, typename Answer>
[[nodiscard]] std::vector<Answer> take_answers(const Job<Request, Answer>& job,
                                               std::string_view& text) {
  std::vector<Answer> answers;
  while (!text.empty()) {
    const std::string_view line = job::take_line(text);
    if (line.empty()) break;
    answers.push_back(job::from_text<Answer>(line, job.what));
  }
  return answers;
}

// Starts the process and waits for its end. `on_answer` is called with each answer as it comes;
// what it throws ends the process. So does an interrupt, where there is somebody to tell of one.
template <typename Request, typename Answer>
[[nodiscard]] ChildOutcome run_job(const Job<Request, Answer>& job,
                                   const std::type_identity_t<Request>& request,
                                   const JobPlace& place,
                                   const std::type_identity_t<Tell<Answer>>& on_answer,
                                   const InterruptGuard* interrupt = nullptr) {
  std::size_t taken = 0;
  const auto take = [&](std::string_view so_far) {
    std::string_view rest = so_far.substr(taken);
    for (const Answer& answer : take_answers(job, rest)) on_answer(answer);
    taken = so_far.size() - rest.size();
  };
  return run_child(command_of(job, request, place), take, interrupt);
}

// The same; returns the last answer, and nothing after an interrupt. Throws what the job threw,
// CellsError where it crashed or its time was up, and InternalError where it answered nothing.
template <typename Request, typename Answer>
[[nodiscard]] std::optional<Answer> ask_job_until(
    const Job<Request, Answer>& job, const std::type_identity_t<Request>& request,
    const JobPlace& place, const InterruptGuard* interrupt,
    const std::type_identity_t<Tell<Answer>>& on_answer) {
  std::optional<Answer> last;
  const auto keep = [&](const Answer& answer) {
    on_answer(answer);
    last = answer;
  };
  const ChildOutcome outcome = run_job(job, request, place, keep, interrupt);
  if (end_of(outcome) == JobEnd::Stopped) return std::nullopt;
  job::throw_if_failed(outcome, job.what, last.has_value());
  return last;
}

template <typename Request, typename Answer>
[[nodiscard]] Answer ask_job(const Job<Request, Answer>& job,
                             const std::type_identity_t<Request>& request, const JobPlace& place) {
  return *ask_job_until(job, request, place, nullptr, [](const Answer&) {});
}

}  // namespace allocmark
