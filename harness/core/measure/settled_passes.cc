// See settled_passes.h.
#include "harness/core/measure/settled_passes.h"

#include <algorithm>
#include <cmath>

#include "base/step_times.h"

namespace allocmark {
namespace {

// How much longer than the least of the passes a part may take: what passes differ by at rest.
constexpr double kLeastMax = 1.1;

bool is_like(const PassParts& one, const PassParts& other) {
  return one.parts().size() == other.parts().size() && one.spans().size() == other.spans().size();
}

std::vector<std::uint64_t> least_parts(std::span<const PassParts> passes) {
  std::vector<std::uint64_t> least = passes.front().parts();
  for (const PassParts& pass : passes) {
    if (!is_like(pass, passes.front())) continue;
    for (std::size_t at = 0; at < least.size(); ++at) {
      least[at] = std::min(least[at], pass.parts()[at]);
    }
  }
  return least;
}

// The parts of a span, in ns.
double host_ns(const PassParts& pass, const std::vector<std::uint64_t>& least, std::size_t begin,
               std::size_t end, const TickScale& scale) {
  double ticks = 0;
  for (std::size_t at = begin; at < end; ++at) {
    const auto own = static_cast<double>(pass.parts()[at]);
    ticks += least.empty() ? own : std::min(own, kLeastMax * static_cast<double>(least[at]));
  }
  return ticks * scale.ns_per_tick();
}

// What reading the clock costs is in the time of every call, on either host.
double scaled_host_ns(double time_ns, std::uint64_t call_count, const HostScale& scale) {
  const auto calls = static_cast<double>(call_count);
  return scale.factor * std::max(time_ns - calls * scale.clock_ns, 0.0) +
         calls * scale.target_clock_ns;
}

struct Steps {
  explicit Steps(std::size_t step_count_max) : measured(step_count_max), scaled(step_count_max) {}
  StepTimes measured, scaled;  // in picoseconds
};

void add_step(double time_ns, StepTimes* steps) {
  const auto picoseconds = static_cast<std::uint64_t>(std::llround(time_ns * kPicosecondsPerNs));
  if (picoseconds > 0) steps->add(picoseconds);
}

double median_ns(const StepTimes& steps) {
  return static_cast<double>(steps.median()) / kPicosecondsPerNs;
}

SettledPass settle_pass(const PassParts& pass, const std::vector<std::uint64_t>& least,
                        const SettleOptions& options, Steps* steps) {
  SettledPass settled;
  std::size_t begin = 0;
  for (const PassParts::Span& span : pass.spans()) {
    const auto driver_ns = static_cast<double>(span.driver_ns);
    const double here_ns = host_ns(pass, least, begin, span.part_end, options.scale);
    const double time_ns = here_ns + driver_ns;
    const double scaled_ns =
        options.host_scale.factor > 0
            ? scaled_host_ns(here_ns, span.call_count, options.host_scale) + driver_ns
            : 0;
    begin = span.part_end;
    settled.total_ns += time_ns;
    settled.scaled_total_ns += scaled_ns;
    if (!span.is_step) continue;
    add_step(time_ns, &steps->measured);
    add_step(scaled_ns, &steps->scaled);
  }
  settled.step_ns = median_ns(steps->measured);
  settled.scaled_step_ns = median_ns(steps->scaled);
  return settled;
}

}  // namespace

void PassParts::end_part() {
  parts_.push_back(part_ticks_);
  part_ticks_ = 0;
}

void PassParts::mark(bool ends_step) {
  if (call_count_ % kPartCallCount != 0) end_part();
  spans_.push_back({.part_end = parts_.size(),
                    .call_count = call_count_,
                    .driver_ns = driver_ns_,
                    .is_step = ends_step});
  call_count_ = driver_ns_ = 0;
}

void PassParts::clear() { *this = {}; }

SettledPasses settle(std::span<const PassParts> passes, const SettleOptions& options) {
  SettledPasses settled;
  if (passes.empty()) return settled;
  const std::vector<std::uint64_t> least = least_parts(passes);
  Steps all(options.step_count_max);
  for (const PassParts& pass : passes) {
    Steps steps(options.step_count_max);
    const bool comparable = is_like(pass, passes.front());
    settled.passes.push_back(
        settle_pass(pass, comparable ? least : std::vector<std::uint64_t>(), options, &steps));
    all.measured.merge(steps.measured);
    all.scaled.merge(steps.scaled);
  }
  settled.step_ns = median_ns(all.measured);
  settled.scaled_step_ns = median_ns(all.scaled);
  return settled;
}

}  // namespace allocmark
