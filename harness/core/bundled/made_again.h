// Makes again what a bundle's numbers came from: the events of a workload, and the exact numbers of
// simulated cells. What a bundle names flows in; hashes and results flow out, or why there are
// none. No file that a bundle names is opened, no library that it names is loaded, and no generator
// takes more than its limits of time and memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/cell/cell.h"
#include "results/schema.h"

namespace allocmark {

// What all that is made again may take together.
class TimeBudget {
 public:
  explicit TimeBudget(double seconds)
      : end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}
  // 0 where it is spent.
  [[nodiscard]] double left_s() const;

 private:
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

// Whether opening it would open a file that it names: "file:" anywhere, since a workload may have
// others within, and a model's config.json or DeepSpeed's in what is opened. A name of what ships
// with the program opens what ships.
[[nodiscard]] bool names_files(const CellKey& key);

struct EventsAgain {
  std::string hash = {};     // 16 hex digits; empty where there is none
  std::string problem = {};  // why there is none
  bool over_limit = false;   // of time, memory or events; says nothing about the bundle
};
// In a process of its own, which ends at the limits.
[[nodiscard]] EventsAgain events_again(const CellKey& key, std::uint64_t event_count,
                                       const TimeBudget& budget);

// "cuda:0", in the one way in which it is written.
[[nodiscard]] bool is_gpu(std::string_view device);
// "sim:PATH.json": a profile that does not ship.
[[nodiscard]] bool names_profile_file(std::string_view device);
// It loads no library and starts no program.
[[nodiscard]] bool is_own_allocator(std::string_view allocator);

// It hands out memory of the host, whose addresses differ from run to run.
[[nodiscard]] bool is_of_host(std::string_view allocator);

// Of pinned memory: the machines that ran both bound it otherwise, or this one can pin too little.
// Then their numbers say nothing about each other.
[[nodiscard]] bool is_bounded_otherwise(const CellResult& stored, const CellResult& again);

// Cells that can be simulated again: on the simulated GPU, by an allocator of ours alone.
[[nodiscard]] bool can_simulate(const CellKey& key);

// Each in a process of its own, in the order given, as many as the time allows: says how many.
[[nodiscard]] std::size_t simulate_again(
    const std::vector<CellSpec>& wanted, const std::string& program_path, const TimeBudget& budget,
    const std::function<void(std::size_t index, const CellResult& result)>& take);

// A number that is stored and was found again here.
struct ExactAgain {
  std::string name = {};                // "oom_count", "passes[2].oom_count"
  std::string stored = {}, again = {};  // as JSON, at most kShownBytes of it
  bool agrees = false;
};

// Every exact number that both sides have. On a simulated GPU those of the modelled driver are
// among them where as many passes were made; on a GPU, and where the two devices differ, only what
// the program and the allocator decide.
[[nodiscard]] std::vector<ExactAgain> exact_numbers(const CellResult& stored,
                                                    const CellResult& again);

// Those that differ: "oom_count: stored 0, simulated again 12".
[[nodiscard]] std::vector<std::string> differences(const std::vector<ExactAgain>& numbers);

}  // namespace allocmark
