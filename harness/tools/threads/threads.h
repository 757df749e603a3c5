// Several threads on one instance of an allocator, or on one for each of several devices: each
// replays the same workload with blocks of its own. A specification flows in; latencies,
// throughput, fairness and waits by number of threads flow out, and whether blocks overlapped in a
// pass that is not timed. Runs in the calling process, on its current CUDA device. This room times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// Free: threads run as the system lets them. Turns: each runs `turn_event_count` events, then the
// next one does, always in the same order; what happens is then the same every time.
enum class ThreadOrder : std::uint8_t { Free, Turns };

// A table of all devices' blocks around the allocators (noted_blocks.h): none, one with one lock,
// or one in parts with a lock each.
enum class TableLock : std::uint8_t { None, One, Parts };
inline constexpr std::size_t kTablePartCount = 67;  // as many as PyTorch's has

struct ThreadsSpec {
  std::string workload;
  std::uint64_t seed = 1;
  std::string allocator, conf;
  // Of all threads together; 1.05x is 1.05 times the sum of their peaks.
  std::string capacity = "unlimited";
  std::vector<std::uint32_t> thread_counts = {1};
  ThreadOrder order = ThreadOrder::Free;
  bool shares_streams = false;  // all threads on the same streams, instead of each on its own
  std::uint32_t pass_count = 3;
  std::uint32_t turn_event_count = 64;
  std::uint32_t device_count = 1;  // thread i is on device i modulo this, with that one's allocator
  TableLock table = TableLock::None;
  friend bool operator==(const ThreadsSpec&, const ThreadsSpec&) = default;
};

struct CountRange {  // over the passes
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const CountRange&, const CountRange&) = default;
};

// One number of threads.
struct ThreadsRow {
  std::uint32_t thread_count = 0;
  std::uint64_t call_count = 0;         // allocate and deallocate, all threads, one pass
  LatencySummary allocate, deallocate;  // host plus driver, all threads and passes
  double calls_per_s = 0;               // of all threads together; median of the passes
  double slowest_over_fastest = 1;      // of the threads' times for the same work; median
  // Share of the threads' time in which they were not on a processor: waiting for a lock or the
  // driver, or put aside by the system. Not measured in turns.
  double off_cpu_share = 0;
  std::uint64_t wait_count = 0;        // how often a thread gave the processor up by itself
  std::uint64_t preemption_count = 0;  // how often the system took it away
  CountRange oom_count;
  CountRange reserved_bytes_end;  // taken from the device, when all threads are done
  bool is_repeatable = false;     // every pass put every block in the same place
  // Of the pass that checks: the first request whose block overlapped one that lived, of any
  // thread. Empty: no block did, or the allocator has no memory.
  std::string overlap = {};
  friend bool operator==(const ThreadsRow&, const ThreadsRow&) = default;
};

// Throws UsageError (bad workload, config string, capacity; an allocator that is not for several
// threads) and EnvironmentError.
[[nodiscard]] std::vector<ThreadsRow> run_threads(const ThreadsSpec& spec);

// The same in a process of its own, which has the CUDA runtime that the device needs. What the
// child throws is thrown here.
[[nodiscard]] std::vector<ThreadsRow> run_threads_in_child(const ThreadsSpec& spec,
                                                           const std::string& device);

// One JSON document: {"kind": "threads", "rows": [...]}; README.md of this folder names the keys.
[[nodiscard]] std::string to_json(const std::vector<ThreadsRow>& rows);
// A line per number of threads.
[[nodiscard]] std::string render_threads(const ThreadsSpec& spec,
                                         const std::vector<ThreadsRow>& rows);

// Two allocators under the same threads, in turn: what of the second one is worse (threads_ab.cc).
// Neither times nor checks allocators.

// Of one side: its rows, round by round.
using ThreadsRounds = std::vector<std::vector<ThreadsRow>>;

enum class ThreadsVerdict : std::uint8_t { Same, Better, Worse };

// What one side showed over the rounds.
struct ValueRange {
  double low = 0, high = 0;
};

// One number for one count of threads.
struct ThreadsNumber {
  std::uint32_t thread_count = 0;
  std::string_view name;  // "allocate_p50_ns"
  ValueRange base, now;
  ThreadsVerdict verdict = ThreadsVerdict::Same;
};

struct ThreadsComparison {
  std::vector<ThreadsNumber> numbers;
  std::vector<std::string> overlaps;  // of the second side: blocks that overlapped
  [[nodiscard]] bool passed() const;
};

// Worse is what in no round was as good as the other side's worst: a count by any amount, a time by
// kThreadsFloor of it besides. The same thing twice shows that once in 12,870 numbers of 8 rounds.
// A side whose blocks overlapped is better in nothing.
inline constexpr double kThreadsFloor = 0.05;
[[nodiscard]] ThreadsComparison compare_threads(const ThreadsRounds& base,
                                                const ThreadsRounds& now);

// A line per number, the worse ones first; the last line says "passed" or why not.
[[nodiscard]] std::string render_comparison(const ThreadsComparison& comparison);
// {"kind": "threads_comparison", "numbers": [...], "overlaps": [...], "passed": true}
[[nodiscard]] std::string to_json(const ThreadsComparison& comparison);

}  // namespace allocmark
