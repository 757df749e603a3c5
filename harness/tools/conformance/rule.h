// The rules of an allocator, one line each, and the answer that a rule gives. The list is rules.cc:
// 'allocmark conformance' holds a plugin against it, tests/allocators every registered backend.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "harness/tools/conformance/plugin.h"

namespace allocmark::conformance {

enum class Outcome : std::uint8_t { Pass, Fail, NotApplicable };

struct Answer {
  Outcome outcome = Outcome::Pass;
  std::string seen;                // one line
  std::string missing_calls = {};  // functions that were called and that simcuda lacks
};

// What a rule needs to be claimed of a backend. A plugin is asked about all of it.
enum class Needs : std::uint8_t {
  Nothing,
  RealMemory,
  MemoryLimit,
  AnyThread,
  StreamOrder,
  ProvenOrder,     // the same, by simcuda's order check
  Faults,          // memory, and simcuda to make calls fail
  StoppedThreads,  // memory, any thread, and simcuda to stop one
  PluginInterface  // what a backend does not have
};

struct Rule {
  std::string_view name;      // "free-order"
  std::string_view sentence;  // what holds, in plain words
  // What was seen; throws Broken or NotApplicable.
  std::string (*check)(Scene& scene) = nullptr;
  Needs needs = Needs::Nothing;
  // The process runs the functions that a program runs at its end; else it ends at once.
  bool ends_process = false;
  // It takes longest, or sleeps, so it starts before the others, which then end beside it.
  bool starts_first = false;
};

[[nodiscard]] std::span<const Rule> all_rules();
// Null where there is none of that name.
[[nodiscard]] const Rule* find_rule(std::string_view name);

// The checks, by file.
namespace checks {
// More than any device has.
inline constexpr std::uint64_t kAbsurdBytes = std::uint64_t{1} << 46;
// Whether each value is above the one before it.
[[nodiscard]] bool rises(std::span<const std::uint64_t> values);

// rules_memory.cc
std::string alignment(Scene& scene);
std::string device_memory(Scene& scene);
std::string overlap(Scene& scene);
std::string contents(Scene& scene);
std::string free_order(Scene& scene);
std::string growth(Scene& scene);
std::string trim(Scene& scene);
std::string rounding(Scene& scene);
// rules_scale.cc
std::string sizes(Scene& scene);
std::string many_live(Scene& scene);
std::string many_requests(Scene& scene);
std::string trim_live(Scene& scene);
// rules_host.cc
std::string objects(Scene& scene);
std::string host_memory(Scene& scene);
std::string host_growth(Scene& scene);
std::string idle(Scene& scene);
std::string stalls(Scene& scene);
std::string uptime(Scene& scene);
// The process ends as a program does when it returns.
std::string process_end(Scene& scene);
// rules_orders.cc
std::string split_order(Scene& scene);
std::string record_many(Scene& scene);
std::string oom_order(Scene& scene);
std::string stream_handle(Scene& scene);
std::string no_waits(Scene& scene);
std::string error_state(Scene& scene);
// rules_answers.cc
std::string serves(Scene& scene);
std::string size_zero(Scene& scene);
std::string free_null(Scene& scene);
std::string out_of_memory(Scene& scene);
std::string recovery(Scene& scene);
std::string last_error(Scene& scene);
std::string foreign_free(Scene& scene);
std::string double_free(Scene& scene);
std::string init_twice(Scene& scene);
std::string device_argument(Scene& scene);
std::string device_restored(Scene& scene);
// rules_process.cc
std::string processes(Scene& scene);
std::string settings(Scene& scene);
// rules_streams.cc
std::string stream_argument(Scene& scene);
std::string stream_order(Scene& scene);
std::string record_stream(Scene& scene);
std::string threads(Scene& scene);
std::string free_on_other_thread(Scene& scene);
std::string threads_end(Scene& scene);
// rules_races.cc
std::string races(Scene& scene);
// rules_preemption.cc
std::string preemption(Scene& scene);
}  // namespace checks

}  // namespace allocmark::conformance
