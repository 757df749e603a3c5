#include "harness/tools/parity/live_parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/own_process.h"
#include "harness/job/children.h"
#include "harness/job/job.h"

namespace allocmark {
namespace {

using caching::Program;

constexpr std::string_view kParityDevice = "sim:h200";

struct LiveRequest {
  std::string program;  // as a trace
  std::string backend;
};

constexpr Job<LiveRequest, std::string> kLive{
    .name = "live",
    .what = "the live comparison",
    .run =
        [](const LiveRequest& request, const Tell<std::string>& tell) {
          run_live_program(caching::program_from_trace(request.program), request.backend, tell);
        },
    .opens_device = false};

ChildCommand command_for(const Program& program, const std::string& backend,
                         const LiveOptions& options) {
  JobPlace place{.program_path = options.program_path,
                 .device = std::string(kParityDevice),
                 .timeout_s = static_cast<double>(options.timeout_s)};
  if (program.capacity_bytes > 0) {
    place.environment.emplace_back("SIMCUDA_CAPACITY_BYTES",
                                   std::to_string(program.capacity_bytes));
  }
  return command_of(kLive, {.program = to_trace(program), .backend = backend}, place);
}

struct Answers {
  std::string text;
  std::string end{};    // how the process ended; empty where as it should
  std::string silence;  // why it went no further, where that is no decision of the allocator's
};

// Ended by the limit on time or on answers, or by a signal that no allocator sends itself. Empty
// otherwise.
std::string silence_of(const ChildOutcome& outcome, std::string_view backend,
                       std::uint64_t timeout_s) {
  if (outcome.timed_out) return fmt::format("{} gave no answer within {} s", backend, timeout_s);
  if (outcome.wrote_too_much) return fmt::format("{} gave longer answers than are read", backend);
  const int sent = outcome.signal_number;
  if (sent != SIGKILL && sent != SIGTERM && sent != SIGINT && sent != SIGHUP) return {};
  return fmt::format("{} was ended from outside by {}", backend, signal_name(sent));
}

Answers answers_of(const ChildOutcome& outcome, std::string_view backend,
                   const LiveOptions& options) {
  if (!outcome.lost.empty() || outcome.exit_code == static_cast<int>(ExitCode::NotReady) ||
      outcome.exit_code == static_cast<int>(ExitCode::Usage)) {
    throw EnvironmentError({.what = fmt::format("the live comparison cannot run '{}'", backend),
                            .got = outcome.lost + outcome.stderr_tail});
  }
  Answers answers{.text = outcome.result,
                  .silence = silence_of(outcome, backend, options.timeout_s)};
  // A line that was cut says nothing.
  if (!answers.silence.empty()) answers.text.resize(answers.text.rfind('\n') + 1);
  if (outcome.timed_out) {
    answers.end = "timed out";
  } else if (outcome.signal_number != 0) {
    answers.end = "ended by " + signal_name(outcome.signal_number);
  } else if (outcome.exit_code != 0) {
    answers.end = fmt::format("exit code {}", outcome.exit_code);
  }
  if (!answers.end.empty()) answers.end += ", " + outcome.stderr_tail;
  return answers;
}

// Both at once, as there are two cores as a rule.
std::pair<Answers, Answers> run_both(const Program& program, const LiveOptions& options) {
  Answers answers[2];
  run_children({command_for(program, options.torch, options),
                command_for(program, options.caching, options)},
               2, [&](std::size_t at, const ChildOutcome& outcome) {
                 answers[at] =
                     answers_of(outcome, at == 0 ? options.torch : options.caching, options);
               });
  return {std::move(answers[0]), std::move(answers[1])};
}

// One line of the answers: "a 17 heap+0x200".
struct Line {
  std::string_view whole;
  std::uint64_t step = 0;

  [[nodiscard]] char letter() const { return whole.empty() ? '\0' : whole.front(); }
};

// Empty at the end.
Line next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  Line line{.whole = text.substr(0, end), .step = 0};
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.whole.size() > 2)
    std::from_chars(line.whole.data() + 2, line.whole.data() + line.whole.size(), line.step);
  return line;
}

// What the order of frees within one step decides, where several streams had events pending.
bool is_order_dependent(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  return name.starts_with("inactive_split") && !name.ends_with(".current");
}

struct DifferingWords {
  std::string torch;
  std::string caching;
  std::uint64_t order_dependent_count = 0;
};

// The counters that differ, as "name=value name=value". Both lines have the same names in order.
DifferingWords differing_words(std::string_view a, std::string_view b, bool any_order) {
  DifferingWords words;
  while (!a.empty() || !b.empty()) {
    const std::size_t a_end = std::min(a.find(' '), a.size());
    const std::size_t b_end = std::min(b.find(' '), b.size());
    const std::string_view theirs = a.substr(0, a_end);
    const std::string_view ours = b.substr(0, b_end);
    if (theirs != ours && any_order && is_order_dependent(theirs) && is_order_dependent(ours)) {
      ++words.order_dependent_count;
    } else if (theirs != ours) {
      words.torch += std::string(theirs) + " ";
      words.caching += std::string(ours) + " ";
    }
    a.remove_prefix(std::min(a_end + 1, a.size()));
    b.remove_prefix(std::min(b_end + 1, b.size()));
  }
  return words;
}

void count(LiveResult& result, const Line& line) {
  result.step_count = line.step + 1;
  if (line.letter() == 'a') {
    ++result.allocation_count;
    result.failure_count += line.whole.ends_with("oom") ? 1 : 0;
  } else if (line.letter() == 's') {
    result.counter_count += static_cast<std::uint64_t>(std::ranges::count(line.whole, '='));
  }
}

LiveDifference difference_at(const Program& program, const Line& torch, const Line& caching) {
  LiveDifference difference;
  const bool only_caching = torch.whole.empty();
  difference.step = only_caching ? caching.step : torch.step;
  if (!only_caching && !caching.whole.empty()) difference.step = std::min(torch.step, caching.step);
  if (difference.step < program.events.size()) {
    difference.request = to_row(program, program.events[difference.step]);
    difference.request.pop_back();
  } else {
    difference.request = "the end";
  }
  if (torch.letter() == 's' && caching.letter() == 's') {
    DifferingWords words = differing_words(torch.whole, caching.whole, false);
    difference.torch = std::move(words.torch);
    difference.caching = std::move(words.caching);
  } else {
    difference.torch = torch.whole;
    difference.caching = caching.whole;
  }
  return difference;
}

// Whether several blocks can become free at once, in an order that is PyTorch's own. Blocks wait
// for events on the streams that they are recorded on, and in a capture for its end.
bool frees_in_any_order(const Program& program) {
  const bool any_pool = program.rules->pools_capture;
  const bool captures = std::ranges::any_of(program.events, [any_pool](const Event& event) {
    return any_pool ? is_of_pool(event.kind) : event.kind == EventKind::CaptureBegin;
  });
  std::optional<std::uint64_t> first;
  for (const Event& event : program.events) {
    if (event.kind != EventKind::Record) continue;
    if (captures || (first && *first != event.stream)) return true;
    first = event.stream;
  }
  return false;
}

// Whether a side that fell silent has no more lines; says so in `result`.
bool ends_in_silence(const Answers& torch, std::string_view torch_rest, const Answers& caching,
                     std::string_view caching_rest, LiveResult& result) {
  const bool torch_silent = torch_rest.empty() && !torch.silence.empty();
  const bool caching_silent = caching_rest.empty() && !caching.silence.empty();
  if (!torch_silent && !caching_silent) return false;
  result.unanswered = fmt::format("{}{}{}", torch_silent ? torch.silence : "",
                                  torch_silent && caching_silent ? ", and " : "",
                                  caching_silent ? caching.silence : "");
  return true;
}

}  // namespace

LiveResult compare_live(const Program& program, const LiveOptions& options) {
  const auto [torch, caching] = run_both(program, options);
  const bool any_order = frees_in_any_order(program);
  LiveResult result;
  std::string_view torch_text = torch.text;
  std::string_view caching_text = caching.text;
  while (!caching_text.empty() || !torch_text.empty()) {
    if (ends_in_silence(torch, torch_text, caching, caching_text, result)) return result;
    const Line ours = next_line(caching_text);
    if (ours.letter() == 'b') {
      result.ended_at_known_bug = true;
      result.step_count = ours.step;
      return result;
    }
    const Line theirs = next_line(torch_text);
    if (ours.letter() == 'e' && theirs.letter() == 'e' && ours.step == theirs.step) {
      result.both_failed = true;
      result.step_count = ours.step;
      return result;
    }
    if (any_order && ours.letter() == 's' && theirs.letter() == 's') {
      const DifferingWords words = differing_words(theirs.whole, ours.whole, true);
      result.order_dependent_count += words.order_dependent_count;
      if (words.torch.empty() && words.caching.empty()) {
        count(result, ours);
        continue;
      }
    }
    if (ours.whole != theirs.whole) {
      result.difference = difference_at(program, theirs, ours);
      result.step_count = result.difference->step;
      if (theirs.whole.empty()) result.difference->torch = torch.end;
      if (ours.whole.empty()) result.difference->caching = caching.end;
      return result;
    }
    count(result, ours);
  }
  if (ends_in_silence(torch, torch_text, caching, caching_text, result)) return result;
  result.step_count = program.events.size();
  if (torch.end.empty() && caching.end.empty()) return result;
  result.difference = {.step = program.events.size(),
                       .request = "the end",
                       .torch = torch.end,
                       .caching = caching.end};
  return result;
}

std::string live_answers(const Program& program, const LiveOptions& options,
                         const std::string& allocator) {
  Answers answers =
      answers_of(run_child(command_for(program, allocator, options)), allocator, options);
  if (!answers.end.empty()) answers.text += "end " + answers.end + "\n";
  return answers.text;
}

Program shrink_live(Program program, const LiveOptions& options, std::uint64_t attempt_max) {
  const LiveResult first = compare_live(program, options);
  if (!first.difference) return program;
  program.events.resize(std::min<std::size_t>(program.events.size(), first.difference->step + 1));
  std::uint64_t attempts = 0;
  for (std::size_t length = program.events.size() / 2; length > 0; length /= 2) {
    for (std::size_t begin = 0; begin + length <= program.events.size();) {
      if (++attempts > attempt_max) return program;
      Program shorter = program;
      const auto at = shorter.events.begin() + static_cast<std::ptrdiff_t>(begin);
      shorter.events.erase(at, at + static_cast<std::ptrdiff_t>(length));
      const LiveResult result = compare_live(shorter, options);
      if (result.difference) {
        program = std::move(shorter);
      } else {
        begin += length;
      }
    }
  }
  return program;
}

extern const JobEntry kLiveJob;
constinit const JobEntry kLiveJob = job_entry<kLive>();

}  // namespace allocmark
