// See target.h.
#include "harness/core/search/target.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "harness/core/measure/request_clock.h"
#include "harness/core/replay/kernel_source.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {
namespace {

constexpr std::string_view kLoadKey = ",per_minute=";
// Above it requests of any server wait for each other.
constexpr std::uint64_t kLoadMax = 1'000'000;

double unit_ns_of(std::string_view unit) {
  if (unit == "ms") return 1e6;
  if (unit == "s" || unit == "sec") return 1e9;
  if (unit == "us") return 1e3;
  if (unit == "min") return 60e9;
  return 0;
}

// Feeds one event to the clock.
void tick(RequestClock* clock, const Event& event, const EventSource& source) {
  switch (event.kind) {
    case EventKind::Kernel:
      return clock->launch(event.stream, event.duration_ns());
    case EventKind::Sync:
      return clock->synchronize();
    case EventKind::Mark:
      break;
    default:
      return;
  }
  const std::string& label = source.labels()[event.id];
  if (label == mark_label(MarkClass::ServerStart)) return clock->start_server();
  if (label == mark_label(MarkClass::IdleUntil)) return clock->idle_until(event.size_bytes);
  if (label == mark_label(MarkClass::RequestDone)) return clock->request_done(event.size_bytes);
}

}  // namespace

std::uint64_t parse_target(std::string_view text, const std::string& where) {
  constexpr std::string_view kName = "p99=";
  double value = 0;
  if (text.starts_with(kName)) {
    const std::string_view amount = text.substr(kName.size());
    const char* const end = amount.data() + amount.size();
    const auto [stop, error] = std::from_chars(amount.data(), end, value);
    const double unit = error == std::errc() ? unit_ns_of({stop, end}) : 0;
    const double target_ns = value * unit;
    if (unit > 0 && target_ns >= 1 && target_ns < 1e15)
      return static_cast<std::uint64_t>(std::llround(target_ns));
  }
  throw UsageError({.what = "this is no target",
                    .where = where,
                    .wanted = "p99= and a time with its unit, as p99=2s or p99=500ms",
                    .got = "'" + std::string(text) + "'",
                    .next = "it is the latency of requests, from arrival to answer"});
}

std::optional<std::uint64_t> served_p99_ns(const std::string& workload, std::uint64_t seed) {
  const std::unique_ptr<EventSource> source = open_workload_with_kernels(workload, seed);
  RequestClock clock(std::max<std::uint32_t>(source->header().stream_count, 1));
  clock.begin_pass();
  while (true) {
    const std::span<const Event> events = source->next();
    if (events.empty()) break;
    for (const Event& event : events) tick(&clock, event, *source);
  }
  const double p99_ns = clock.pass_latency_ns_p99();
  if (p99_ns <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(p99_ns);
}

std::optional<std::string> with_load(const std::string& workload, std::uint64_t per_minute) {
  const bool is_one = workload.starts_with("serve:") && workload.find(' ') == std::string::npos;
  if (!is_one) return std::nullopt;
  const std::size_t additions = std::min(workload.find('+'), workload.size());
  std::string text = workload.substr(0, additions);
  if (const std::size_t at = text.find(kLoadKey); at != std::string::npos) {
    text.erase(at, std::min(text.find(',', at + 1), text.size()) - at);
  }
  return text + std::string(kLoadKey) + std::to_string(per_minute) + workload.substr(additions);
}

std::optional<std::uint64_t> largest_load(const std::string& workload, std::uint64_t seed,
                                          std::uint64_t target_ns) {
  const auto keeps = [&](std::uint64_t per_minute) {
    return served_p99_ns(*with_load(workload, per_minute), seed).value_or(0) <= target_ns;
  };
  if (!with_load(workload, 1)) return std::nullopt;
  if (!keeps(1)) return 0;
  std::uint64_t low = 1;
  std::uint64_t high = 2;
  while (high < kLoadMax && keeps(high)) {
    low = high;
    high *= 2;
  }
  if (high >= kLoadMax) return low;
  while (high - low > std::max<std::uint64_t>(low / 50, 1)) {
    const std::uint64_t middle = low + (high - low) / 2;
    (keeps(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace allocmark
