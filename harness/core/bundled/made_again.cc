#include "harness/core/bundled/made_again.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_text.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/core/run/run.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/oom_causes.h"
#include "workloads/trace/source.h"
#include "workloads/trace/trace_hash.h"

namespace allocmark {
namespace {

using Json = nlohmann::json;

// A generator holds its live blocks and little else.
[[maybe_unused]] constexpr std::uint64_t kGeneratorBytesMax = kGiB;
// How far a cell's process may be from its own limit of time.
constexpr std::size_t kCellsAtOnce = 2;

// Exact on a simulated GPU. Warnings, latencies and times are not. kOfEachCause stands for one
// count of every cause.
constexpr std::string_view kOfEachCause = "oom_count_";
constexpr std::string_view kExactFields =
    "status trace_name trace_hash placement_hash event_count allocate_count deallocate_count "
    "oom_count skipped_free_count oom_count_ failed_before_count failed_again_count oom_first "
    "capacity_bytes requested_bytes_peak allocated_bytes_peak active_bytes_peak "
    "reserved_bytes_peak allocated_bytes_at_reserved_peak requested_bytes_at_reserved_peak "
    "reserved_bytes_at_requested_peak device_bytes_peak device_allocate_count "
    "device_free_count retry_count synchronize_all_count counters residue_bytes "
    "unordered_reuse_count contents_oom_count contents_placement_hash "
    "unimplemented_call_count";

// Likewise, where the bundle knows them: since schema 1.15.
constexpr std::string_view kExactBounds = "rounded_bytes_peak packed_bytes";

// Exact there as well once the passes are made again: the driver's time is modelled.
constexpr std::string_view kExactTimes =
    "growth kernel_ns_total host_ns_total assumed_kernel_ns idle_oom_count program_ideal_ns "
    "allocate_driver_latency_count allocate_driver_latency_ns_p50 "
    "allocate_driver_latency_ns_p90 allocate_driver_latency_ns_p99 "
    "allocate_driver_latency_ns_p999 allocate_driver_latency_ns_max "
    "allocate_driver_latency_ns_mean deallocate_driver_latency_count "
    "deallocate_driver_latency_ns_p50 deallocate_driver_latency_ns_p90 "
    "deallocate_driver_latency_ns_p99 deallocate_driver_latency_ns_p999 "
    "deallocate_driver_latency_ns_max deallocate_driver_latency_ns_mean driver_calls "
    "trial_oom_count modelled_driver_ns_total step_ns_p50 step_ns_mean step_ideal_ns_mean "
    "program_ns";

void limit_this_process() {
#ifndef __SANITIZE_ADDRESS__
  const rlimit limit{.rlim_cur = kGeneratorBytesMax, .rlim_max = kGeneratorBytesMax};
  setrlimit(RLIMIT_AS, &limit);
#endif
  const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

// "=HASH", "!what is wrong", or "#" where there are more events than were said.
std::string hash_text(const CellKey& key, std::uint64_t event_count) {
  try {
    const std::unique_ptr<EventSource> source =
        open_workload_with_kernels(key.workload_text(), key.seed);
    TraceHash hash;
    std::uint64_t count = 0;
    for (std::span<const Event> batch = source->next(); !batch.empty(); batch = source->next()) {
      count += batch.size();
      if (count > event_count) return "#";
      for (const Event& event : batch) {
        const bool is_mark = event.kind == EventKind::Mark;
        hash.add(event, is_mark ? source->labels()[event.id] : std::string());
      }
    }
    return fmt::format("={:016x}", hash.value());
  } catch (const Error& error) {
    return std::string("!") + error.what();
  } catch (const std::exception&) {
    return "";
  }
}

[[noreturn]] void answer(int fd, const std::string& text) {
  [[maybe_unused]] const ssize_t ignored =
      write(fd, text.data(), std::min<std::size_t>(text.size(), 4096));
  _exit(0);
}

// What comes through the pipe until its end or the end of the time; nothing then.
std::string read_answer(int fd, const TimeBudget& budget) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (budget.left_s() > 0) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, static_cast<int>(std::ceil(budget.left_s() * 1e3))) <= 0) continue;
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return "";
}

constexpr std::size_t kShownBytes = 60;

using Numbers = std::vector<ExactAgain>;

void compare_field(const Json& before, const Json& now, const std::string& name,
                   const std::string& where, Numbers& numbers) {
  const auto was = before.find(name);
  const auto is = now.find(name);
  if (was == before.end() || is == now.end()) return;
  const bool agrees = *was == *is;
  numbers.push_back({.name = where + name,
                     .stored = was->dump().substr(0, kShownBytes),
                     .again = is->dump().substr(0, kShownBytes),
                     .agrees = agrees});
}

bool is_exact_of_pass(std::string_view name) {
  return name == "oom_count" || name == "residue_bytes" || name == "step_ns_mean";
}

// Which calls a class has, and what the driver took for them.
bool is_exact_of_class(std::string_view name) {
  return name == "size_class" || name.ends_with("_count") ||
         name.find("_driver_") != std::string_view::npos;
}

// Of a list of objects the fields that are exact.
void compare_rows(const Json& before, const Json& now, const std::string& list,
                  bool (*is_exact)(std::string_view name), Numbers& numbers) {
  const Json& stored = before.at(list);
  const Json& again = now.at(list);
  if (stored.size() != again.size()) {
    numbers.push_back({.name = list,
                       .stored = std::to_string(stored.size()),
                       .again = std::to_string(again.size())});
    return;
  }
  for (std::size_t row = 0; row < again.size(); ++row) {
    for (const auto& [name, value] : again[row].items()) {
      if (!is_exact(name)) continue;
      compare_field(stored[row], again[row], name, fmt::format("{}[{}].", list, row), numbers);
    }
  }
}

// What a server's requests would take with an allocator that costs nothing follows from the trace.
void compare_requests(const Json& before, const Json& now, Numbers& numbers) {
  const auto was = before.find("requests");
  const auto is = now.find("requests");
  if (was == before.end() || is == now.end()) return;
  if (was->is_null() != is->is_null()) {
    numbers.push_back({.name = "requests",
                       .stored = was->is_null() ? "none" : "some",
                       .again = is->is_null() ? "none" : "some"});
  }
  if (!was->is_object() || !is->is_object()) return;
  for (const auto& [name, value] : is->items()) {
    const bool exact = name.starts_with("ideal_") || name.ends_with("_count");
    if (exact) compare_field(*was, *is, name, "requests.", numbers);
  }
}

// What the device says of itself, where others may use it.
bool is_of_device(std::string_view name) {
  return name == "device_bytes_peak" || name == "residue_bytes";
}

// Of two devices: what one of them cannot tell, and how much each has as a whole, is no difference
// of the run.
bool hangs_on_no_device(const Json& before, const Json& now, const std::string& name) {
  if (name == "capacity_bytes") return before.at("capacity") != "unlimited";
  const auto was = before.find(name);
  const auto is = now.find(name);
  return was != before.end() && is != now.end() && was->is_null() == is->is_null();
}

std::vector<std::string> exact_fields(std::string_view all) {
  std::vector<std::string> names;
  for (const auto word : std::views::split(all, ' ')) {
    const std::string name(word.begin(), word.end());
    if (name != kOfEachCause) {
      names.push_back(name);
      continue;
    }
    for (std::size_t cause = 0; cause < kOomCauseCount; ++cause) {
      names.push_back(name + std::string(to_string(static_cast<OomCause>(cause))));
    }
  }
  return names;
}

bool is_path(std::string_view text) { return text.find('/') != std::string_view::npos; }

}  // namespace

double TimeBudget::left_s() const {
  const std::chrono::duration<double> left = end_ - std::chrono::steady_clock::now();
  return std::max(left.count(), 0.0);
}

bool names_files(const CellKey& key) {
  return key.workload.find("file:") != std::string::npos ||
         key.workload_definition.find("file:") != std::string::npos ||
         key.workload_text().find(".json") != std::string::npos ||
         key.workload_text().find("deepspeed=") != std::string::npos;
}

EventsAgain events_again(const CellKey& key, std::uint64_t event_count, const TimeBudget& budget) {
  std::array<int, 2> ends{-1, -1};
  if (budget.left_s() <= 0 || pipe(ends.data()) != 0) return {.over_limit = true};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    limit_this_process();
    answer(ends[1], hash_text(key, event_count));
  }
  close(ends[1]);
  const std::string text = child > 0 ? read_answer(ends[0], budget) : "";
  close(ends[0]);
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  if (text.starts_with('=')) return {.hash = text.substr(1)};
  if (text.starts_with('!')) return {.problem = text.substr(1)};
  // More events than the cell had are other events, however many there are.
  if (text == "#") return {.hash = "more events"};
  return {.over_limit = true};
}

bool is_gpu(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!device.starts_with(kPrefix)) return false;
  const std::string_view number = device.substr(kPrefix.size());
  const bool digits = !number.empty() && number.size() <= 3 &&
                      number.find_first_not_of("0123456789") == std::string_view::npos;
  return digits && (number == "0" || number.front() != '0');
}

bool names_profile_file(std::string_view device) {
  return is_simulated(device) && (is_path(device) || device.ends_with(".json"));
}

bool is_own_allocator(std::string_view allocator) {
  // `rmm` is the library, and its releases are rebuilt: they are told apart by their whole names.
  if (const BackendEntry* const entry = known_backend(allocator)) return !entry->loads_library;
  // What only looks like a release of ours is refused for its name, not passed over.
  const auto is_like_it = [&](const BackendEntry& entry) {
    return !entry.loads_library && family_of(entry.name) == family_of(allocator);
  };
  return std::ranges::any_of(backend_registry(), is_like_it) ||
         std::ranges::any_of(release_registry(), is_like_it);
}

bool is_of_host(std::string_view allocator) {
  const BackendEntry* const entry = known_backend(allocator);
  return entry != nullptr && entry->capabilities.side == MemorySide::Host;
}

bool is_bounded_otherwise(const CellResult& stored, const CellResult& again) {
  if (!is_measured(stored) || stored.capacity_bytes == again.capacity_bytes) return false;
  if (!is_of_host(stored.key.allocator)) return false;
  return again.capacity_bytes == 0 || parse_capacity(stored.key.capacity).unlimited();
}

bool can_simulate(const CellKey& key) {
  return is_own_allocator(key.allocator) && is_simulated(key.device) &&
         !names_profile_file(key.device) && !names_files(key) && !is_path(key.conf);
}

std::size_t simulate_again(
    const std::vector<CellSpec>& wanted, const std::string& program_path, const TimeBudget& budget,
    const std::function<void(std::size_t index, const CellResult& result)>& take) {
  std::size_t done = 0;
  while (done < wanted.size() && budget.left_s() > 0) {
    std::vector<CellSpec> specs;
    for (std::size_t i = done; i < wanted.size() && specs.size() < kCellsAtOnce; ++i) {
      CellSpec spec = wanted[i];
      // Results are told apart by their keys.
      if (std::ranges::find(specs, spec.key, &CellSpec::key) != specs.end()) break;
      spec.times_host = false;
      spec.timeout_s = static_cast<std::uint64_t>(std::ceil(budget.left_s()));
      specs.push_back(std::move(spec));
    }
    std::vector<CellResult> some;
    (void)run_cells(specs, {.program_path = program_path, .job_count = kCellsAtOnce},
                    [&](const CellResult& result) { some.push_back(result); });
    for (const CellSpec& spec : specs) {
      const auto found = std::ranges::find(some, spec.key, &CellResult::key);
      if (found == some.end()) return done;
      take(done, *found);
      ++done;
    }
  }
  return done;
}

std::vector<ExactAgain> exact_numbers(const CellResult& stored, const CellResult& again) {
  const Json before = parse_json(to_json_line(stored));
  const Json now = parse_json(to_json_line(again));
  const bool one_device = again.key.device == stored.key.device;
  const bool simulated = is_simulated(stored.key.device) && one_device;
  Numbers numbers;
  for (const std::string& name : exact_fields(kExactFields)) {
    if (!simulated && is_of_device(name)) continue;
    if (one_device || hangs_on_no_device(before, now, name))
      compare_field(before, now, name, "", numbers);
  }
  if (stored.rounded_bytes_peak || stored.packed_bytes) {
    for (const std::string& name : exact_fields(kExactBounds))
      compare_field(before, now, name, "", numbers);
  }
  if (!simulated || again.pass_count != stored.pass_count) return numbers;
  for (const std::string& name : exact_fields(kExactTimes))
    compare_field(before, now, name, "", numbers);
  compare_rows(before, now, "passes", is_exact_of_pass, numbers);
  compare_rows(before, now, "size_classes", is_exact_of_class, numbers);
  compare_requests(before, now, numbers);
  return numbers;
}

std::vector<std::string> differences(const std::vector<ExactAgain>& numbers) {
  std::vector<std::string> lines;
  for (const ExactAgain& number : numbers) {
    if (number.agrees) continue;
    lines.push_back(
        fmt::format("{}: stored {}, simulated again {}", number.name, number.stored, number.again));
  }
  return lines;
}

}  // namespace allocmark
