// The process's begin and end: recording starts with the library and ends with the program.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "harness/tools/capture/preload/call.h"
#include "harness/tools/capture/preload/capture.h"
#include "harness/tools/capture/preload/recorder.h"
#include "harness/tools/capture/preload/torch_hook.h"

namespace allocmark_capture {
namespace {

__attribute__((constructor)) void begin_with_program() {
  if (const char* const folder = std::getenv("ALLOCMARK_CAPTURE"); folder != nullptr)
    (void)allocmark_capture_begin(folder);
}

__attribute__((destructor)) void end_with_program() {
  end_torch();
  const LockedRecorder recorder;
  recorder->finish();
}

}  // namespace

CAPTURE_EXPORT int allocmark_capture_begin(const char* folder) {
  {
    const LockedRecorder recorder;
    if (!recorder->begin(folder == nullptr ? "" : folder)) {
      say(recorder->is_on() ? "recording is on already"
                            : "nothing is recorded: wanted a folder to write to, got '" +
                                  std::string(folder == nullptr ? "" : folder) + "'");
      return -1;
    }
  }
  want_torch(std::getenv("ALLOCMARK_CAPTURE_TORCH"));
  look_for_torch();
  return 0;
}

CAPTURE_EXPORT void allocmark_capture_mark(const char* label) {
  if (label == nullptr || *label == '\0') return;
  const LockedRecorder recorder;
  recorder->for_each([&](DeviceTrace& trace) { trace.marked(label); });
}

// Many programs end like this; their traces should be whole, too. It may be called by a handler of
// a signal, so nothing here takes memory from the heap or waits for a lock for good.
CAPTURE_EXPORT __attribute__((noreturn)) void _exit(int code) {
  LockedRecorder::cut_files();
  while (true) syscall(SYS_exit_group, code);
}

}  // namespace allocmark_capture
