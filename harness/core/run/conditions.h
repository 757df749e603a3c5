// What else went on while a run measured: other programs' work, time that a hypervisor or a
// container's limit took away, processors that throttled. Counters of the host flow in at the
// beginning and the end of a run; what may have disturbed it flows out, once per run, and is stored
// as conditions.json beside the results. Times nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// Counters that only grow, and the load, at one moment; absent where the host does not tell.
struct HostCounters {
  double wall_s = 0;     // monotonic
  double own_cpu_s = 0;  // of this process and the children it has waited for
  std::optional<double> busy_cpu_s = std::nullopt;  // of all processors, whoever used them
  std::optional<double> steal_cpu_s =
      std::nullopt;  // ready to run, but the hypervisor was elsewhere
  std::optional<double> load_average = std::nullopt;
  std::optional<std::uint64_t> throttled_us = std::nullopt;  // by the container's CPU limit
  std::optional<std::uint64_t> thermal_throttle_count = std::nullopt;
  // At the beginning what the host's reference takes with nothing of ours beside it, at the end
  // what it took beside the cells (harness/core/measure/host_reference.h); whoever measured it
  // fills it in.
  std::optional<double> host_reference_ns = std::nullopt;
};
[[nodiscard]] HostCounters read_host_counters();

// Means over a run.
struct Conditions {
  double wall_s = 0;
  std::optional<double> other_cpu_count = std::nullopt;  // processors that others kept busy
  std::optional<double> steal_share = std::nullopt;      // of the time of all processors, 0..1
  std::optional<double> load_average_begin = std::nullopt, load_average_end = std::nullopt;
  std::optional<double> throttled_s = std::nullopt;
  std::optional<std::uint64_t> thermal_throttle_count = std::nullopt;
  std::optional<double> host_slowdown = std::nullopt;  // host code beside the cells, alone is 1
  std::vector<std::string> warnings = {};
};
[[nodiscard]] Conditions conditions_between(const HostCounters& begin, const HostCounters& end,
                                            std::uint64_t cpu_count);

[[nodiscard]] std::string to_json(const Conditions& conditions);
// Throws EnvironmentError naming `where`.
[[nodiscard]] Conditions conditions_from_json(const std::string& text, const std::string& where);

// What the numbers say may have disturbed the run, one sentence each; empty for a run too short to
// tell. More than 1 % of the processors' time taken by the hypervisor, more than 10 % of the
// processors busy with other programs, more than 0.1 % of the run stopped by the container's limit,
// any throttling for heat, or host code that ran 1.1 times as long as it does alone.
[[nodiscard]] std::vector<std::string> disturbances(const Conditions& conditions,
                                                    std::uint64_t cpu_count);

// DIR/conditions.json; a resumed run adds its warnings to those that are there.
void store_conditions(const std::string& folder, Conditions conditions);
// Adds the stored warnings to the environment's; nothing where the folder has none.
void add_stored_conditions(const std::string& folder, Environment* environment);
// The same of a file's text; `where` is what messages call it.
void add_conditions(const std::string& text, const std::string& where, Environment* environment);

}  // namespace allocmark
