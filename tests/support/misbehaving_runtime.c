// A library to preload before the CUDA runtime, for tests of those who start cells: what a broken cell does, as it takes its
// device. MISBEHAVE is KIND for all cells, or KIND:ALLOCATOR for those of one; KIND is crash, hang, garbage, silent or exit3.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kResultFd = 3 };

// A cell is `allocmark cell PID`, with a specification on stdin that names the allocator.
static int is_cell_of(const char *allocator) {
  char text[1 << 16] = {0};
  const int arguments = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t length = read(arguments, text, sizeof text - 1);
  close(arguments);
  int count = 0;
  for (ssize_t i = 0; i < length; ++i) count += text[i] == '\0';
  if (count != 3 || strcmp(text + strlen(text) + 1, "cell") != 0) return 0;
  char wanted[256];
  snprintf(wanted, sizeof wanted, "\"allocator\":\"%s", allocator);
  memset(text, 0, sizeof text);
  // The cell has read it; it is a file in memory, so it is still there.
  return pread(STDIN_FILENO, text, sizeof text - 1, 0) > 0 && strstr(text, wanted) != NULL;
}

static void misbehave(const char *plan) {
  char kind[32] = {0};
  const char *colon = strchr(plan, ':');
  snprintf(kind, sizeof kind, "%.*s", (int)(colon == NULL ? strlen(plan) : (size_t)(colon - plan)), plan);
  char quoted[128] = {0};
  if (colon != NULL) snprintf(quoted, sizeof quoted, "%s\"", colon + 1);
  if (!is_cell_of(quoted)) return;
  static const char garbage[] = "{\"kind\":\"ce\x80\n";
  if (strcmp(kind, "crash") == 0) {
    fputs("about to crash\n", stderr);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  } else if (strcmp(kind, "hang") == 0) {
    for (;;) pause();
  } else if (strcmp(kind, "garbage") == 0) {
    _exit(write(kResultFd, garbage, sizeof garbage - 1) > 0 ? 0 : 1);
  } else if (strcmp(kind, "silent") == 0) {
    _exit(0);
  } else if (strcmp(kind, "exit3") == 0) {
    fputs("gave up\n", stderr);
    _exit(3);
  }
}

int cudaSetDevice(int device) {
  const char *plan = getenv("MISBEHAVE");
  if (plan != NULL) misbehave(plan);
  int (*next)(int) = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "cudaSetDevice");
  return next(device);
}
