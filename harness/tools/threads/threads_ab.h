// Two allocators under the same threads, in turn: what of the second one is worse. Rows of both
// sides by round flow in; verdicts flow out. Neither times nor checks allocators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/tools/threads/threads.h"

namespace allocmark {

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
