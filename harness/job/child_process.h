// A child process with its input, its output and its end under control: how cells and probes are
// started. Input goes in as a string on its stdin; fd 3 (the result), stdout and stderr come back
// as strings. Never hangs: the caller polls, and ends the whole process group when time is up.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/stored_text.h"
#include "harness/job/pass_turns.h"

namespace allocmark {

class InterruptGuard;

// Where a child writes its result.
inline constexpr int kResultFd = 3;
// Where a child finds the file that it was handed (handed_file.h).
inline constexpr int kHandedFd = 5;

struct ChildCommand {
  std::vector<std::string> argv;         // argv[0] is the path of the program
  std::vector<std::string> environment;  // "NAME=value"; the child sees nothing else
  StoredText input;                      // what the child reads on stdin
  double timeout_s = 0;                  // 0 = none
  bool takes_turns = false;              // it finds a socket for turns at kTurnFd (pass_turns.h)
  int handed_fd = -1;                    // it finds this file at kHandedFd; -1 = none
};

// How a child ended and what it left.
struct ChildOutcome {
  int exit_code = -1;           // -1 where a signal ended it
  int signal_number = 0;        // 0 where it exited by itself
  bool timed_out = false;       // ended by us because its time was up
  bool ended_by_us = false;     // by end(), whoever called it
  bool wrote_too_much = false;  // to fd 3, and was killed for it
  // Why nothing is known of its end: it could not be started, or not be ended. Empty as a rule.
  std::string lost;
  std::string result;       // everything it wrote to fd 3
  std::string stderr_tail;  // the last 2 KiB of stdout and stderr together
  double wall_s = 0;
};

class ChildProcess {
 public:
  // Starts it in a process group of its own. Throws EnvironmentError where no process can be made.
  explicit ChildProcess(const ChildCommand& command);
  // Ends the process group if it still runs, and waits for it.
  ~ChildProcess();
  ChildProcess(ChildProcess&&) = delete;

  // When the child must be ended; far away where there is no timeout.
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const { return deadline_; }

  // Takes what has arrived, ends the child where its time is up, and returns the outcome once it
  // has ended. Never blocks.
  [[nodiscard]] std::optional<ChildOutcome> advance();

  // What it has written to fd 3 as far as advance() has seen.
  [[nodiscard]] const std::string& result_so_far() const { return outcome_.result; }

  // What it has written to fd 3 since the last call: lines that are not its last word.
  [[nodiscard]] std::string take_result();

  // Memory that it alone holds; 0 where the system does not tell.
  [[nodiscard]] std::uint64_t own_bytes() const;

  // SIGKILL to the process group.
  void end();

  // Whether it has said since the last turn that it waits for the next. Its time limit stands still
  // from then until the turn is given.
  [[nodiscard]] bool waits_for_turn();

  // Lets it go on. A child that is gone is found by advance().
  void give_turn(const TurnMessage& message);

 private:
  friend void wait_for_news(std::span<const ChildProcess* const>, const InterruptGuard*);
  void read_pipes();
  void kill_group();

  pid_t pid_ = -1;
  int result_fd_ = -1;
  int stderr_fd_ = -1;
  int turn_fd_ = -1;  // of a child that takes turns; becomes readable when it waits
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point deadline_;
  ChildOutcome outcome_;
};

// Returns when one of the children, or an interrupt where somebody is to tell of one, has something
// to say; soon where a child is about to end or its time may be up.
void wait_for_news(std::span<const ChildProcess* const> children,
                   const InterruptGuard* interrupt = nullptr);

// Starts it and waits for its end. `on_result` is called again and again with all that the child
// has written so far; what it throws ends the child. So does an interrupt, where there is somebody
// to tell of one.
[[nodiscard]] ChildOutcome run_child(
    const ChildCommand& command,
    const std::function<void(std::string_view)>& on_result = [](std::string_view) {},
    const InterruptGuard* interrupt = nullptr);

// What it printed last, as UTF-8, without the blanks at its end; empty where it printed nothing.
[[nodiscard]] std::string last_output(const ChildOutcome& outcome);

// The same behind "; its last output: "; empty where it printed nothing.
[[nodiscard]] std::string quoted_output(const ChildOutcome& outcome);

// "ended by SIGSEGV", "ended by the limit on its time", "ended with exit code 3".
[[nodiscard]] std::string end_words(const ChildOutcome& outcome);

// What it said was wrong, in one line without our name. Where a signal, a limit on time or a
// library ended `what` (as "the search"), that stands before it.
[[nodiscard]] ErrorText error_of(const ChildOutcome& outcome, std::string_view what);

// Throws error_of as the child did, so that the exit code is the child's; CellsError where it did
// not end by itself with an error of ours, EnvironmentError where it could not be loaded.
[[noreturn]] void rethrow(const ChildOutcome& outcome, std::string_view what);

// Called first thing in a child: asks the kernel to end this process when its parent ends, and
// exits where the parent is already gone.
void end_with_parent(pid_t parent_pid);

}  // namespace allocmark
