// How two cells' processes take turns, pass by pass: the child's end. A process says that it waits
// and goes on when its parent gives it the turn, so that only one of the two works at a time and a
// pass of one lies next to a pass of the other. The parent's end is ChildProcess::give_turn; who
// comes when is run_group's to decide. Works on a socket; times nothing.
#pragma once

#include <cstdint>

namespace allocmark {

// What the parent sends with a turn, over a socket between two programs of this machine that may be
// of different builds: fields keep their places.
struct TurnMessage {
  std::int32_t cpu = -1;   // where the pass is to run; -1 = anywhere
  std::uint32_t last = 0;  // 1: no further pass, finish
};

// Where a child that takes turns finds its socket.
inline constexpr int kTurnFd = 4;

class PassTurns {
 public:
  explicit PassTurns(int fd) : fd_(fd) {}

  // Whether there is a socket: what starts the program may have closed it.
  [[nodiscard]] bool connected() const;

  // Says that this process waits, and blocks until it is its turn. Moves the thread to the
  // processor that the turn names. False where no further pass is wanted, or the parent is gone.
  [[nodiscard]] bool wait();

  // How long it has waited so far.
  [[nodiscard]] double waited_s() const { return waited_s_; }

 private:
  bool wait_for_message();

  int fd_;
  double waited_s_ = 0;
};

}  // namespace allocmark
