// How far a search is, for the person who waits: what is done and the time left. Units of work flow
// in, text for stderr flows out: one line that is drawn anew on a terminal, else a line per tenth,
// one after kFirstSeconds and one at least every kSilentSeconds. Work that takes less than
// kFirstSeconds says nothing there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace allocmark {

class SearchProgress {
 public:
  static constexpr double kFirstSeconds = 3;
  static constexpr double kQuietSeconds = 10;  // no tenths before
  static constexpr double kSilentSeconds = 60;

  // `what` is done: "searching 40 settings". `seconds_so_far` is asked after every unit.
  SearchProgress(std::FILE* out, bool on_terminal, std::string what, std::uint64_t unit_count,
                 std::function<double()> seconds_so_far);
  // The same with the time since now, on stderr; tick() is called by a thread of its own.
  SearchProgress(std::string what, std::uint64_t unit_count);
  // Clears the line of a terminal.
  ~SearchProgress();
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  // Any thread may call these.
  void add(std::uint64_t unit_count);
  // Time went by.
  void tick();

 private:
  void print(double seconds);

  std::FILE* out_;
  bool on_terminal_;
  std::string what_;
  std::uint64_t unit_count_;
  std::uint64_t done_count_ = 0;
  double told_seconds_ = 0;  // when the last line was printed
  std::function<double()> seconds_so_far_;
  std::mutex mutex_;  // of what is done, and of the line
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread ticker_;
};

}  // namespace allocmark
