// How far a search is, for the person who waits: settings that are done and the time left. Units of
// work flow in, text for stderr flows out: one line that is drawn anew on a terminal, else a line
// per tenth, and none of a search that takes less than kQuietSeconds.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

namespace allocmark {

class SearchProgress {
 public:
  static constexpr double kQuietSeconds = 10;

  // `seconds_so_far` is asked after every unit.
  SearchProgress(std::FILE* out, bool on_terminal, std::uint64_t unit_count,
                 std::function<double()> seconds_so_far);
  // The same with the time since now, on stderr.
  explicit SearchProgress(std::uint64_t unit_count);
  // Clears the line of a terminal.
  ~SearchProgress();
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  // Any thread may call it.
  void add(std::uint64_t unit_count);

 private:
  std::FILE* out_;
  bool on_terminal_;
  std::uint64_t unit_count_;
  std::uint64_t done_count_ = 0;
  std::function<double()> seconds_so_far_;
  std::mutex mutex_;  // of what is done, and of the line
};

}  // namespace allocmark
