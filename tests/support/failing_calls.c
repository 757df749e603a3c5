/* Makes the n-th call of one function fail, as a full disk or an unwell file system does. Preloaded by
   fault_test.py: FAIL_CALL names the function, FAIL_NTH counts from 1, FAIL_ERRNO is what it says. Only
   calls on files are counted; with FAIL_LASTING all later ones fail as well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fails(const char* call) {
  static int count;
  const char* const wanted = getenv("FAIL_CALL");
  if (wanted == NULL || strcmp(wanted, call) != 0) return 0;
  const int nth = atoi(getenv("FAIL_NTH"));
  ++count;
  if (getenv("FAIL_LASTING") != NULL ? count < nth : count != nth) return 0;
  errno = atoi(getenv("FAIL_ERRNO"));
  return 1;
}

static int is_file(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

ssize_t write(int fd, const void* bytes, size_t byte_count) {
  ssize_t (*const real)(int, const void*, size_t) =
      (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  if (is_file(fd) && fails("write")) return -1;
  /* Half of it, which a caller must go on from. */
  if (is_file(fd) && byte_count > 1 && fails("short_write")) return real(fd, bytes, byte_count / 2);
  return real(fd, bytes, byte_count);
}

int fsync(int fd) {
  int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return is_file(fd) && fails("fsync") ? -1 : real(fd);
}

int rename(const char* from, const char* to) {
  int (*const real)(const char*, const char*) =
      (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  return fails("rename") ? -1 : real(from, to);
}

ssize_t read(int fd, void* bytes, size_t byte_count) {
  ssize_t (*const real)(int, void*, size_t) =
      (ssize_t(*)(int, void*, size_t))dlsym(RTLD_NEXT, "read");
  return is_file(fd) && fails("read") ? -1 : real(fd, bytes, byte_count);
}

static int is_written(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

int open(const char* path, int flags, ...) {
  int (*const real)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails(is_written(flags) ? "open_write" : "open_read") ? -1 : real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open(path, flags, mode);
}
