// See conduct.h.
#include "harness/tools/qualify/conduct.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include "base/nearest.h"
#include "base/number_text.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/tools/qualify/child.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/judge.h"
#include "harness/tools/qualify/monitor.h"

namespace allocmark::qualify {
namespace {

constexpr std::array<Level, 4> kLevels = {
    {{"quick", 0}, {"medium", 5 * 60}, {"long", 30 * 60}, {"extra-long", 8 * 3600}}};
constexpr double kProbeLimitS = 60;
constexpr int kTimeoutCountMax = 2;
constexpr std::string_view kHealthTest = "health";

std::string label_of(const std::string& device, int gpu) {
  return is_simulated(device) ? fmt::format("{}/{}", device, gpu) : fmt::format("cuda:{}", gpu);
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string text_of(const TestAnswer& answer, const std::string& key) {
  const auto found = answer.texts.find(key);
  return found == answer.texts.end() ? "" : found->second;
}
std::string text_of(const TestAnswer& answer, int gpu, const char* key) {
  return text_of(answer, fmt::format("{}.{}", gpu, key));
}

class Conductor {
 public:
  Conductor(const ConductOptions& options, std::span<const TestEntry> tests,
            const std::function<void(const TestResult&)>& on_result)
      : options_(options), tests_(tests), on_result_(on_result) {}

  Report run() {
    report_.level = options_.level.name;
    report_.device = options_.device;
    report_.version = version_text();
    report_.started_utc = utc_now();
    find_gpus();
    for (const TestEntry& test : tests_) {
      if (test.name == kHealthTest && monitor_) {
        for (const auto& [gpu, values] : monitor_->end()) keep_readings(gpu, "during.", values);
      }
      test.scope == Scope::Node ? run_node(test) : run_per_gpu(test);
      if (test.name == kPreconditionsTest) {
        monitor_ = std::make_unique<MonitorProcess>(
            TestSpec{.device = device_, .gpus = gpu_numbers()}, plan_);
      }
    }
    // One for each GPU, in their order.
    std::vector<TestResult> siblings = judge_siblings(report_.gpus, options_.thresholds);
    for (std::size_t i = 0; i < siblings.size(); ++i) {
      report_.gpus[i].tests.push_back(std::move(siblings[i]));
    }
    conclude(report_, options_.fails_from);
    report_.wall_s = gone_s();
    report_.finished_utc = utc_now();
    name_node(report_, options_.is_anonymous ? std::nullopt : std::optional(options_.node_name));
    return std::move(report_);
  }

 private:
  void report_result(std::vector<TestResult>& list, TestResult result) {
    on_result_(result);
    list.push_back(std::move(result));
  }

  void keep_readings(int gpu, const char* when, const std::map<std::string, double>& values) {
    for (const auto& [name, value] : values) readings_[gpu][when + name] = value;
  }

  [[nodiscard]] double gone_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  [[nodiscard]] double left_s() const {
    return options_.time_budget_s <= 0 ? HUGE_VAL : options_.time_budget_s - gone_s();
  }
  // Empty where there is time left.
  [[nodiscard]] std::string budget_reason() const {
    return left_s() > 0 ? "" : fmt::format("the time budget of {:.0f} s", options_.time_budget_s);
  }

  // Repetitions get what a budget has left for them: of the tests that run on one GPU after the
  // other a quarter of a level's time for each GPU, of the rest three quarters in all.
  [[nodiscard]] double seconds_of(const TestEntry& test) const {
    constexpr double kInTurnShare = 0.25;
    const double rounds =
        2 - kInTurnShare + kInTurnShare * static_cast<double>(report_.gpus.size());
    const double budget_s =
        options_.time_budget_s <= 0 ? HUGE_VAL : options_.time_budget_s / rounds;
    return std::min(options_.level.seconds, budget_s) * test.time_share;
  }

  // The GPUs that tests may touch.
  [[nodiscard]] std::vector<int> gpu_numbers() const {
    std::vector<int> numbers;
    for (const GpuReport& gpu : report_.gpus) {
      if (!unsafe_reasons_.contains(gpu.facts.index)) numbers.push_back(gpu.facts.index);
    }
    return numbers;
  }

  // The test on each of these GPUs, all at a time.
  std::vector<TimedAnswer> ask(const TestEntry& test, const std::vector<int>& gpus) {
    ChildPlan plan = plan_;
    plan.virtual_s = virtual_s_;
    plan.limit_s = seconds_of(test) + options_.time_limit_s;
    if (test.name != kHealthTest) plan.limit_s = std::clamp(left_s(), 1.0, plan.limit_s);
    std::vector<TestSpec> specs;
    for (const int gpu : gpus) {
      const auto found = readings_.find(gpu);
      specs.push_back({.test = std::string(test.name),
                       .device = device_,
                       .gpu = gpu,
                       .gpus = gpu_numbers(),
                       .seconds = seconds_of(test),
                       .baseline_path = options_.baseline_path});
      if (found != readings_.end()) specs.back().readings = found->second;
    }
    return ask_children(specs, plan, [this] {
      if (monitor_) monitor_->advance();
    });
  }

  void find_gpus() {
    device_ = options_.device == "all" ? "cuda:0" : options_.device;
    ChildPlan plan = plan_;
    plan.limit_s = kProbeLimitS;
    const TestAnswer answer = ask_child({.test = "devices", .device = device_}, plan);
    const std::optional<int> wanted =
        options_.device.starts_with("cuda:")
            ? number_in_text<int>(std::string_view(options_.device).substr(5))
            : std::nullopt;
    report_.node.driver_version = text_of(answer, "driver_version");
    TestAnswer node;
    for (const Figure& figure : answer.figures) {
      if (!figure.threshold.empty()) {
        node.figures.push_back(figure);
        continue;
      }
      const int index = static_cast<int>(&figure - answer.figures.data());
      if (wanted && *wanted != index) continue;
      report_.gpus.push_back(
          {.facts = {.index = index,
                     .label = label_of(device_, index),
                     .name = figure.name,
                     .uuid = text_of(answer, index, "uuid"),
                     .pci_bus_id = text_of(answer, index, "pci_bus_id"),
                     .serial = text_of(answer, index, "serial"),
                     .vbios = text_of(answer, index, "vbios"),
                     .uuid_hash = figure.note,
                     .memory_bytes = static_cast<std::uint64_t>(figure.value.value_or(0))}});
    }
    if (report_.gpus.empty()) {
      throw EnvironmentError(
          {.what = "there is no GPU to qualify",
           .where = options_.device,
           .got = answer.failure,
           .next = "check nvidia-smi, or see how it works with --device sim:h200"});
    }
    report_result(report_.node_tests, judge({.test = "devices"}, node, options_.thresholds));
  }

  void take(std::size_t index, const TestEntry& test, TimedAnswer answer) {
    GpuReport& gpu = report_.gpus[index];
    if (test.name == kPreconditionsTest) {
      keep_readings(gpu.facts.index, "before.", answer.answer.readings);
    }
    const bool unsafe = answer.answer.unsafe;
    const bool cut = answer.timed_out && !budget_reason().empty();
    // Every further test could take its whole time limit to find out the same.
    if (answer.timed_out && ++timeout_counts_[gpu.facts.index] >= kTimeoutCountMax) {
      unsafe_reasons_[gpu.facts.index] =
          fmt::format("{} tests on this GPU did not end", kTimeoutCountMax);
    }
    TestResult result =
        judge({.test = std::string(test.name), .gpu = gpu.facts.label, .wall_s = answer.wall_s},
              std::move(answer.answer), options_.thresholds);
    if (cut) {
      // It had less time than it may take, so nobody knows whether it would have ended.
      result.verdict = Verdict::Warn;
      result.reason = fmt::format("{}{}", kCutShort, budget_reason());
    }
    if (unsafe && result.verdict == Verdict::Fail) {
      unsafe_reasons_[gpu.facts.index] = result.reason;
    }
    report_result(gpu.tests, std::move(result));
  }

  void run_per_gpu(const TestEntry& test) {
    std::vector<std::size_t> indexes;
    for (std::size_t i = 0; i < report_.gpus.size(); ++i) {
      GpuReport& gpu = report_.gpus[i];
      const auto unsafe = unsafe_reasons_.find(gpu.facts.index);
      std::string reason = test.name == kHealthTest ? "" : budget_reason();
      if (unsafe != unsafe_reasons_.end()) reason = unsafe->second;
      if (reason.empty()) {
        indexes.push_back(i);
        continue;
      }
      report_result(gpu.tests, skipped({.test = std::string(test.name), .gpu = gpu.facts.label},
                                       "not tried: " + reason));
    }
    const std::size_t group_size = test.scope == Scope::GpusTogether ? indexes.size() : 1;
    for (std::span<const std::size_t> rest = indexes; !rest.empty();
         rest = rest.subspan(group_size)) {
      std::vector<int> gpus;
      for (const std::size_t i : rest.first(group_size)) {
        gpus.push_back(report_.gpus[i].facts.index);
      }
      std::vector<TimedAnswer> answers = ask(test, gpus);
      double longest_s = 0;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        longest_s = std::max(longest_s, answers[i].answer.virtual_s);
        take(rest[i], test, std::move(answers[i]));
      }
      virtual_s_ += longest_s;
    }
  }

  void run_node(const TestEntry& test) {
    const TestEnd end{.test = std::string(test.name)};
    if (const std::string reason = budget_reason(); !reason.empty()) {
      return report_result(report_.node_tests, skipped(end, "not tried: " + reason));
    }
    TimedAnswer answer = ask(test, {0}).front();
    report_result(report_.node_tests, judge({.test = end.test, .wall_s = answer.wall_s},
                                            std::move(answer.answer), options_.thresholds));
  }

  const ConductOptions& options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::span<const TestEntry> tests_;
  const std::function<void(const TestResult&)>& on_result_;
  const ChildPlan plan_{.program_path = options_.program_path,
                        .simulated_gpu_count = options_.simulated_gpu_count};
  std::string device_;  // whose runtime the tests get
  Report report_;
  std::map<int, std::map<std::string, double>> readings_;  // by GPU, for health
  std::map<int, std::string> unsafe_reasons_;
  std::map<int, int> timeout_counts_;
  double virtual_s_ = 0;  // of simulated GPUs, since the first test
  std::unique_ptr<MonitorProcess> monitor_;
};

}  // namespace

Level find_level(std::string_view name) {
  std::vector<std::string> names;
  for (const Level& level : kLevels) {
    if (level.name == name) return level;
    names.emplace_back(level.name);
  }
  throw UsageError({.what = "there is no such level",
                    .where = "--level",
                    .wanted = "quick, medium, long or extra-long",
                    .got = std::string(name),
                    .next = suggest(name, names)});
}

Report conduct(const ConductOptions& options, std::span<const TestEntry> tests,
               const std::function<void(const TestResult&)>& on_result) {
  return Conductor(options, tests, on_result).run();
}

}  // namespace allocmark::qualify
