#include "harness/job/handed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace allocmark {
namespace {

// Above all numbers that a child's ends are moved to.
constexpr int kOwnFdMin = 10;

}  // namespace

HandedFile::HandedFile() {
  const int low_fd = memfd_create("handed", MFD_CLOEXEC);
  if (low_fd >= 0) {
    fd_ = fcntl(low_fd, F_DUPFD_CLOEXEC, kOwnFdMin);
    close(low_fd);
  }
  if (fd_ >= 0) return;
  throw EnvironmentError({.what = "cannot open a file in memory for other processes",
                          .got = std::strerror(errno),
                          .next = "check the limit on open files (ulimit -n)"});
}

HandedFile::~HandedFile() { close(fd_); }

}  // namespace allocmark
