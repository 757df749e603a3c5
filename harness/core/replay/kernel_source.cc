// See kernel_source.h.
#include "harness/core/replay/kernel_source.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "workloads/composition.h"
#include "workloads/open_workload.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {
namespace {

constexpr std::string_view kSuffix = "+kernels:";
constexpr std::string_view kEmptyCacheSuffix = "+empty_cache:steps";
constexpr std::uint64_t kDurationNsMax = 10'000'000'000;

[[noreturn]] void refuse(std::string_view text) {
  throw UsageError({.what = "this says nothing about kernels",
                    .where = "--kernels",
                    .wanted = "trace, off, or a duration from 1ns to 10s, as 20us",
                    .got = "\"" + std::string(text) + "\"",
                    .next = "for example --kernels 20us"});
}

// Where what stands behind the workload begins, as "+kernels:off"; the text's end where nothing
// does.
std::size_t begin_of_additions(std::string_view text) {
  const std::size_t end =
      text.ends_with(kEmptyCacheSuffix) ? text.size() - kEmptyCacheSuffix.size() : text.size();
  return std::min(end, text.substr(0, end).rfind(kSuffix));
}

std::uint64_t unit_ns(std::string_view unit) {
  if (unit == "ns") return 1;
  if (unit == "us") return 1'000;
  if (unit == "ms") return 1'000'000;
  if (unit == "s") return 1'000'000'000;
  return 0;
}

// The events of another source, with a request to empty the cache after every step mark.
class EmptyCacheSource final : public EventSource {
 public:
  explicit EmptyCacheSource(std::unique_ptr<EventSource> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] std::span<const Event> next() override {
    events_.clear();
    for (const Event& event : inner_->next()) {
      events_.push_back(event);
      const bool is_step =
          event.kind == EventKind::Mark && mark_class_of(labels()[event.id]) == MarkClass::Step;
      if (is_step) events_.push_back({.kind = EventKind::Trim});
    }
    return events_;
  }
  void rewind() override { inner_->rewind(); }
  [[nodiscard]] const TraceHeader& header() const override { return inner_->header(); }
  [[nodiscard]] const std::vector<std::string>& labels() const override { return inner_->labels(); }

 private:
  std::unique_ptr<EventSource> inner_;
  std::vector<Event> events_;
};

// The events of another source, without its kernels or with one after every request.
class KernelSource final : public EventSource {
 public:
  KernelSource(std::unique_ptr<EventSource> inner, KernelChoice choice)
      : inner_(std::move(inner)), choice_(choice) {}

  [[nodiscard]] std::span<const Event> next() override {
    events_.clear();
    // A batch may hold nothing but kernels.
    while (events_.empty()) {
      const std::span<const Event> batch = inner_->next();
      if (batch.empty()) return {};
      for (const Event& event : batch) add(event);
    }
    return events_;
  }
  void rewind() override { inner_->rewind(); }
  [[nodiscard]] const TraceHeader& header() const override { return inner_->header(); }
  [[nodiscard]] const std::vector<std::string>& labels() const override { return inner_->labels(); }

 private:
  void add(const Event& event) {
    const bool is_work = event.kind == EventKind::Kernel || event.kind == EventKind::Busy;
    if (is_work && choice_.kind == KernelChoice::Kind::None) return;
    events_.push_back(event);
    if (event.kind != EventKind::Alloc || choice_.kind != KernelChoice::Kind::AfterRequest) return;
    events_.push_back(
        {.size_bytes = choice_.duration_ns, .stream = event.stream, .kind = EventKind::Kernel});
  }

  std::unique_ptr<EventSource> inner_;
  KernelChoice choice_;
  std::vector<Event> events_;
};

}  // namespace

KernelChoice parse_kernels(std::string_view text) {
  if (text.empty() || text == "trace") return {};
  if (text == "off") return {.kind = KernelChoice::Kind::None};
  std::uint64_t amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::uint64_t unit = unit_ns({end, text.data() + text.size()});
  if (error != std::errc() || unit == 0 || amount == 0 || amount > kDurationNsMax / unit) {
    refuse(text);
  }
  return {.kind = KernelChoice::Kind::AfterRequest, .duration_ns = amount * unit};
}

std::string with_kernels(std::string_view workload, std::string_view kernels) {
  if (parse_kernels(kernels).kind == KernelChoice::Kind::Trace) return std::string(workload);
  if (says_kernels(workload)) {
    throw UsageError({.what = "the workload says itself which kernels it has",
                      .where = "--kernels",
                      .wanted = "one of the two",
                      .got = std::string(workload),
                      .next = "leave --kernels out"});
  }
  return std::string(workload) + std::string(kSuffix) + std::string(kernels);
}

bool says_kernels(std::string_view workload) {
  return workload.find(kSuffix) != std::string_view::npos;
}

std::string define_workload_with_kernels(std::string_view text) {
  const std::size_t end = begin_of_additions(text);
  const std::string definition = define_workload(text.substr(0, end));
  return definition.empty() ? definition : definition + std::string(text.substr(end));
}

std::string define_workload_on_card(std::string_view text, const ServingCard& card) {
  if (card == ServingCard{}) return {};
  const std::size_t end = begin_of_additions(text);
  const std::string_view named = text.substr(0, end);
  const std::string said = define_workload(named);
  const std::string base = said.empty() ? std::string(named) : said;
  const std::string placed = replace_workload_parts(base, [&](const std::string& part) {
    if (!part.starts_with("serve:")) return part;
    std::string with = part;
    if (part.find(",tflops=") == std::string::npos) with += fmt::format(",tflops={}", card.tflops);
    if (part.find(",bandwidth=") == std::string::npos)
      with += fmt::format(",bandwidth={}", card.gb_per_second);
    return with;
  });
  return placed == base ? std::string() : placed + std::string(text.substr(end));
}

std::string presets_of_workload(std::string_view text) {
  return deciding_presets(text.substr(0, begin_of_additions(text)));
}

std::vector<std::string> notes_of_workload(std::string_view text) {
  return left_out_of_workload(text.substr(0, begin_of_additions(text)));
}

std::vector<std::string> trace_files_of_workload(std::string_view text) {
  return workload_files(text.substr(0, begin_of_additions(text)));
}

std::unique_ptr<EventSource> open_workload_with_kernels(std::string_view text, std::uint64_t seed) {
  if (text.ends_with(kEmptyCacheSuffix)) {
    text.remove_suffix(kEmptyCacheSuffix.size());
    return std::make_unique<EmptyCacheSource>(open_workload_with_kernels(text, seed));
  }
  const std::size_t at = text.rfind(kSuffix);
  if (at == std::string_view::npos) return open_workload(text, seed);
  const std::string_view kernels = text.substr(at + kSuffix.size());
  if (kernels.empty()) refuse(kernels);
  const KernelChoice choice = parse_kernels(kernels);
  std::unique_ptr<EventSource> source = open_workload(text.substr(0, at), seed);
  if (choice.kind == KernelChoice::Kind::Trace) return source;
  return std::make_unique<KernelSource>(std::move(source), choice);
}

}  // namespace allocmark
