/* For LD_PRELOAD: the program is loaded once, and each of its runs is a fork of that: a run costs a millisecond and not
   ten, so that a fuzzer can make a hundred thousand. It runs its own main, with words and environment of its own.

   A request on stdin, four native 32-bit numbers and texts: {milliseconds, address space in MiB or 0, count of words, count of
   changes of the environment}, then each text with its length in front: the file for all output, the words, the changes
   ("NAME=value"). The answer on stdout: {wait status, 1 where it was late, KiB of memory at most, milliseconds of processor}. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int Main(int, char**, char**);
static Main* program_main;

static void read_all(void* into, size_t size) {
  for (char* at = into; size > 0;) {
    const ssize_t count = read(0, at, size);
    if (count <= 0) _exit(0); /* who asked is gone */
    at += count;
    size -= (size_t)count;
  }
}

static char* read_text(void) {
  uint32_t size;
  read_all(&size, sizeof size);
  char* text = calloc(size + 1, 1);
  read_all(text, size);
  return text;
}

static void run(char** texts, const uint32_t* request, char* name) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (request[1] > 0) {
    const struct rlimit space = {(rlim_t)request[1] << 20, (rlim_t)request[1] << 20};
    setrlimit(RLIMIT_AS, &space);
  }
  const int output = open(texts[0], O_WRONLY | O_CREAT | O_TRUNC, 0644), nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(output, 1);
  dup2(output, 2);
  close(output);
  close(nothing);
  const int count = (int)request[2];
  char** words = calloc((size_t)count + 2, sizeof *words);
  words[0] = name;
  memcpy(words + 1, texts + 1, (size_t)count * sizeof *words);
  for (uint32_t at = 0; at < request[3]; ++at) putenv(texts[1 + count + at]);
  exit(program_main(count + 1, words, environ));
}

static int serve(int argc, char** argv, char** envp) {
  (void)argc, (void)envp;
  unsetenv("LD_PRELOAD"); /* what it starts is no server */
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  for (;;) {
    uint32_t request[4];
    read_all(request, sizeof request);
    const uint32_t count = 1 + request[2] + request[3];
    char** texts = calloc(count, sizeof *texts);
    for (uint32_t at = 0; at < count; ++at) texts[at] = read_text();
    const pid_t pid = fork();
    if (pid == 0) run(texts, request, argv[0]);
    const struct timespec limit = {request[0] / 1000, (long)(request[0] % 1000) * 1000000};
    int status = 0;
    uint32_t late = 0;
    struct rusage used;
    while (wait4(pid, &status, WNOHANG, &used) == 0) {
      if (late || sigtimedwait(&child, NULL, &limit) >= 0) continue;
      late = 1;
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
    }
    kill(-pid, SIGKILL); /* what it left behind */
    const struct timeval user = used.ru_utime, kernel = used.ru_stime;
    const uint32_t answer[4] = {(uint32_t)status, late, (uint32_t)used.ru_maxrss,
                                (uint32_t)((user.tv_sec + kernel.tv_sec) * 1000 + (user.tv_usec + kernel.tv_usec) / 1000)};
    if (write(1, answer, sizeof answer) != sizeof answer) _exit(0);
    for (uint32_t at = 0; at < count; ++at) free(texts[at]);
    free(texts);
  }
}

int __libc_start_main(Main* main, int argc, char** argv, void (*init)(void), void (*fini)(void), void (*loader)(void), void* stack) {
  typedef int Start(Main*, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  program_main = main;
  return ((Start*)dlsym(RTLD_NEXT, "__libc_start_main"))(serve, argc, argv, init, fini, loader, stack);
}
