// See child.h.
#include "harness/tools/qualify/child.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/error.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/job/children.h"

namespace allocmark::qualify {
namespace {

// An H200 clears all its memory in 0.37 s (2026-11-20).
constexpr std::chrono::seconds kClearingTime{1};

const TestEntry& find_entry(const std::string& name) {
  for (const std::span<const TestEntry> entries : {registry(), helpers()}) {
    for (const TestEntry& entry : entries) {
      if (entry.name == name) return entry;
    }
  }
  throw UsageError({.what = "there is no such test",
                    .where = "allocmark qualify",
                    .got = name,
                    .next = "use: allocmark qualify"});
}

// Why a test could not go on. Where memory ran out: how much of it there is.
std::string failure_text(const Error& error, std::uint64_t free_bytes_before) {
  std::string text = error.what();
  if (!error.text().got.starts_with("cudaErrorMemoryAllocation")) return text;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return text;
  return fmt::format("the GPU ran out of memory: {} free, {} before the test; {}",
                     format_bytes(free_bytes), format_bytes(free_bytes_before), text);
}

// Runs a test or helper by name, on the GPU and with the CUDA runtime that it asks for. An
// environment that is not as it must be becomes the answer's failure. Throws UsageError for a name
// that is not known.
TestAnswer run_test(const TestSpec& spec) {
  const TestEntry& entry = find_entry(spec.test);
  const TestContext context{.spec = spec, .simulated = is_simulated(spec.device)};
  TestAnswer answer;
  std::uint64_t free_bytes_before = 0;
  try {
    if (context.simulated != simcuda_loaded()) {
      throw EnvironmentError({.what = "the wrong CUDA runtime is loaded",
                              .where = spec.device,
                              .next = "check LD_LIBRARY_PATH and LD_PRELOAD"});
    }
    if (entry.needs_context) {
      ALLOCMARK_CUDA_CHECK(cudaSetDevice(spec.gpu));
      ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
      free_bytes_before = device_free_bytes();
    } else if (context.simulated) {
      (void)cudaSetDevice(spec.gpu);  // where its rounds idle; costs nothing, makes no context
    }
    // What earlier tests freed is being cleared, which would be measured with the rest.
    if (entry.scope == Scope::GpusInTurn && !context.simulated) {
      std::this_thread::sleep_for(kClearingTime);
    }
    answer = entry.run(context);
    constexpr double kNsPerS = 1e9;
    if (context.simulated) {
      answer.virtual_s =
          static_cast<double>(SimcuApi::find().thread_clock()->modelled_ns) / kNsPerS;
    }
  } catch (const Error& error) {
    answer.failure = failure_text(error, free_bytes_before);
  }
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
    place.environment.push_back(kWarmHostCaches);
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
    return {.failure = fmt::format(
                "did not end within {:.0f} s: a call hangs, or --time-limit is too short{}",
                limit_s, quoted_output(outcome))};
  }
  if (end_of(outcome) != JobEnd::Done) return {.failure = end_text(outcome)};
  try {
    std::string_view text = outcome.result;
    std::vector<TestAnswer> answers = take_answers(kTest, text);
    if (answers.empty()) return {.failure = "ended with exit code 0" + quoted_output(outcome)};
    TestAnswer& answer = answers.front();
    if (!answer.failure.empty()) answer.failure += quoted_output(outcome);
    return std::move(answer);
  } catch (const Error& error) {
    return {.failure = error.what()};
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
