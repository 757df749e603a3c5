// Chooses the processor on which the calling thread is least disturbed: a virtual machine's
// processor may share its core with somebody else's work, which makes all code of a measurement up
// to half slower for seconds. Times a short fixed loop on every processor. Only the calling thread
// is moved.
#pragma once

#include <sched.h>

namespace allocmark {

class QuietCpu {
 public:
  // Remembers where the thread may run now.
  QuietCpu();
  // The thread may run there again.
  ~QuietCpu();
  QuietCpu(const QuietCpu&) = delete;
  QuietCpu& operator=(const QuietCpu&) = delete;

  // Moves the thread to the processor where the loop is fastest at this moment, of those it could
  // run on at first; about 0.02 ms per processor. Returns that processor, or -1 where there is one
  // only or the system refuses: then nothing has changed.
  int move() const;  // NOLINT(modernize-use-nodiscard): most callers only want to be there

  // Moves the calling thread to this processor for good; false where the system refuses.
  static bool move_to(int cpu);

 private:
  cpu_set_t allowed_{};
  bool known_ = false;
};

}  // namespace allocmark
