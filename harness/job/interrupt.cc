// See interrupt.h. Signal handlers can reach only static state, hence the variables below: they are
// written by the guard before the handlers exist and by the handlers after.
#include "harness/job/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/assert.h"
#include "base/error.h"

namespace allocmark {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};

volatile sig_atomic_t signal_count = 0;
int wake_write_fd = -1;
int wake_read_fd = -1;
std::array<struct sigaction, kSignals.size()> previous_actions;

void handle_signal(int signal_number) {
  signal_count = signal_count + 1;
  if (signal_count > 1) _exit(128 + signal_number);
  const int saved_errno = errno;
  const char byte = 1;
  [[maybe_unused]] const ssize_t written = write(wake_write_fd, &byte, 1);
  errno = saved_errno;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  ALLOCMARK_ASSERT(wake_read_fd == -1);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw EnvironmentError({.what = "cannot make a pipe for Ctrl-C",
                            .got = std::strerror(errno),
                            .next = "check the limit on open files (ulimit -n)"});
  }
  wake_read_fd = ends[0];
  wake_write_fd = ends[1];
  signal_count = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &previous_actions[i]);
    if (previous_actions[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = handle_signal;
    sigemptyset(&action.sa_mask);
    sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &previous_actions[i], nullptr);
  }
  close(wake_read_fd);
  close(wake_write_fd);
  wake_read_fd = -1;
  wake_write_fd = -1;
}

bool InterruptGuard::requested() const { return signal_count > 0; }

int InterruptGuard::wake_fd() const { return wake_read_fd; }

}  // namespace allocmark
