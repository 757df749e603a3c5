// Ctrl-C. The first SIGINT, SIGTERM or SIGHUP asks the run to end in order (running cells are
// ended, finished ones are kept); the second ends this process at once, and the kernel ends its
// cells with it.
#pragma once

namespace allocmark {

// Installs the handlers while it lives; one at a time. A signal that the caller's parent ignores
// stays ignored.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // True from the first signal on.
  [[nodiscard]] bool requested() const;

  // Readable from the first signal on, so that poll() wakes up; never read from it.
  [[nodiscard]] int wake_fd() const;
};

}  // namespace allocmark
