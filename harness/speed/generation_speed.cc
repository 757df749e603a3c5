#include "harness/speed/generation_speed.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "harness/measure/clock.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

constexpr double kMillionEventsPerSecondTarget = 20;
constexpr std::uint64_t kGrowthTolerance = kMiB;
// Reading the resident size costs microseconds; once per so many events it does not show.
constexpr std::uint64_t kEventsPerLook = std::uint64_t{1} << 18;

// 0 where the system does not say.
std::uint64_t resident_bytes() { return process_memory(::getpid()).resident_bytes; }

}  // namespace

GenerationSpeed measure_generation(const std::string& workload, std::uint64_t event_count) {
  GenerationSpeed speed{.workload = workload};
  const std::uint64_t resident_before = resident_bytes();
  const std::unique_ptr<EventSource> source = open_workload(workload, 1);
  std::uint64_t cpu_ns = 0;
  std::uint64_t next_look = 0;
  bool has_events = false;
  while (speed.event_count < event_count) {
    const std::uint64_t begin_ns = thread_cpu_ns();
    std::span<const Event> events;
    std::uint64_t made_count = 0;
    do {
      events = source->next();
      made_count += events.size();
    } while (!events.empty() && made_count < kEventsPerLook / 16);
    if (events.empty()) source->rewind();
    cpu_ns += thread_cpu_ns() - begin_ns;
    has_events = has_events || made_count > 0;
    if (!has_events) {
      throw UsageError({.what = "the workload has no events",
                        .where = "workload '" + workload + "'",
                        .wanted = "at least one",
                        .got = "",
                        .next = ""});
    }
    speed.event_count += made_count;
    if (speed.event_count < next_look && speed.event_count < event_count) continue;
    next_look = speed.event_count + kEventsPerLook;
    const std::uint64_t now_bytes = resident_bytes();
    const std::uint64_t growth_bytes = now_bytes - std::min(now_bytes, resident_before);
    speed.growth_bytes = std::max(speed.growth_bytes, growth_bytes);
    if (speed.event_count <= event_count / 10) speed.tenth_growth_bytes = speed.growth_bytes;
  }
  speed.million_events_per_s = static_cast<double>(speed.event_count) * 1000.0 /
                               static_cast<double>(std::max<std::uint64_t>(cpu_ns, 1));
  return speed;
}

std::string to_text(const GenerationSpeed& speed) {
  const bool fast = speed.million_events_per_s >= kMillionEventsPerSecondTarget;
  const bool constant = speed.growth_bytes <= speed.tenth_growth_bytes + kGrowthTolerance;
  return fmt::format(
      "{:7.1f} million events/s ({}), {:5.1f} MiB after a tenth, {:5.1f} at the end ({}), {} "
      "events: {}\n",
      speed.million_events_per_s, fast ? "target 20, met" : "target 20, MISSED",
      static_cast<double>(speed.tenth_growth_bytes) / static_cast<double>(kMiB),
      static_cast<double>(speed.growth_bytes) / static_cast<double>(kMiB),
      constant ? "constant" : "GROWS", speed.event_count, speed.workload);
}

}  // namespace allocmark
