#include "base/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/write_fully.h"

namespace allocmark {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

std::string wanted_of(const InputKind& kind) {
  return kind.takes_pipes ? "a regular file or a pipe" : "a regular file";
}

[[noreturn]] void refuse(const std::string& path, const InputKind& kind, std::string got) {
  throw FileError({.what = fmt::format("cannot read this file as {}", kind.name),
                   .where = path,
                   .wanted = wanted_of(kind),
                   .got = std::move(got),
                   .next = "check the path and its permissions"});
}

[[noreturn]] void too_large(const std::string& path, const InputKind& kind, std::uint64_t limit,
                            const std::string& got) {
  throw FileError({.what = "the file is too large",
                   .where = path,
                   .wanted = fmt::format("at most {} for {}", format_bytes(limit), kind.name),
                   .got = got,
                   .next = "check that it is the file that was meant"});
}

const char* name_of_type(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "no regular file";
}

// A file without a name, gone with its descriptor.
int make_spool(const std::string& path, const InputKind& kind) {
  const char* const named = std::getenv("TMPDIR");
  std::string name = std::string(named != nullptr && *named != '\0' ? named : "/tmp");
  name += "/allocmark-pipe-XXXXXX";
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) refuse(path, kind, fmt::format("no room in {}: {}", name, std::strerror(errno)));
  unlink(name.c_str());
  return fd;
}

}  // namespace

struct InputFile::State {
  std::string path;
  InputKind kind;
  int fd = -1;
  int spool_fd = -1;  // of a pipe: everything that came through it so far
  std::uint64_t spooled_bytes = 0;
  std::uint64_t at_bytes = 0;    // of the next read
  std::uint64_t size_bytes = 0;  // as it was opened

  ~State() {
    if (fd >= 0) close(fd);
    if (spool_fd >= 0) close(spool_fd);
  }
  std::size_t read_some(int from, std::span<char> into) const;
  std::size_t read_pipe(std::span<char> into);
  std::size_t read_open_pipe(std::span<char> into) const;
  void keep(std::span<const char> bytes);
};

std::size_t InputFile::State::read_some(int from, std::span<char> into) const {
  while (true) {
    const ssize_t count = ::read(from, into.data(), into.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) refuse(path, kind, std::strerror(errno));
  }
}

// Waits first: a pipe without a writer yet would look like its end. A writer may be silent for as
// long as it likes, as before any filter.
std::size_t InputFile::State::read_pipe(std::span<char> into) {
  if (at_bytes < spooled_bytes) {
    const std::uint64_t there = std::min<std::uint64_t>(into.size(), spooled_bytes - at_bytes);
    return read_some(spool_fd, into.first(static_cast<std::size_t>(there)));
  }
  const std::size_t count = read_open_pipe(into);
  if (spooled_bytes + count > kPipeBytesMax) {
    too_large(path, kind, kPipeBytesMax, "a pipe that goes on");
  }
  keep(into.first(count));
  return count;
}

std::size_t InputFile::State::read_open_pipe(std::span<char> into) const {
  while (true) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, kPipeWaitMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) refuse(path, kind, std::strerror(errno));
    // Where nothing came this tells a silent writer (EAGAIN) from none (0), and the second poll a
    // writer that has just gone.
    const ssize_t count = ::read(fd, into.data(), into.size());
    if (count == 0 && ready == 0 && poll(&waiting, 1, 0) == 0) {
      refuse(path, kind,
             fmt::format("a pipe that nobody opened to write to for {} s", kPipeWaitMs / 1000));
    }
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR && errno != EAGAIN) refuse(path, kind, std::strerror(errno));
  }
}

void InputFile::State::keep(std::span<const char> bytes) {
  spooled_bytes += bytes.size();
  if (const int error = write_fully(spool_fd, bytes); error != 0)
    refuse(path, kind, fmt::format("no room to keep a pipe: {}", std::strerror(error)));
}

InputFile::InputFile(const std::string& path, const InputKind& kind)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->kind = kind;
  // Without O_NONBLOCK a pipe that nobody writes to would hang here.
  state_->fd = open(path.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (state_->fd < 0) refuse(path, kind, std::strerror(errno));
  struct stat status {};
  if (fstat(state_->fd, &status) != 0) refuse(path, kind, std::strerror(errno));
  if (S_ISFIFO(status.st_mode) && kind.takes_pipes) {
    state_->spool_fd = make_spool(path, kind);
    return;
  }
  if (!S_ISREG(status.st_mode)) refuse(path, kind, name_of_type(status.st_mode));
  const auto size_bytes = static_cast<std::uint64_t>(status.st_size);
  state_->size_bytes = size_bytes;
  if (size_bytes > kind.size_bytes_max) {
    too_large(path, kind, kind.size_bytes_max, format_bytes(size_bytes));
  }
}

InputFile::~InputFile() = default;

std::size_t InputFile::read(std::span<char> into) {
  std::size_t total = 0;
  while (total < into.size()) {
    const std::span<char> rest = into.subspan(total);
    const std::size_t count =
        is_pipe() ? state_->read_pipe(rest) : state_->read_some(state_->fd, rest);
    if (count == 0) break;
    total += count;
    state_->at_bytes += count;
    // A file may grow while it is read, and those of the system say no size.
    if (!is_pipe() && state_->at_bytes > state_->kind.size_bytes_max) {
      too_large(state_->path, state_->kind, state_->kind.size_bytes_max, "more");
    }
    if (is_pipe()) break;  // what has come is judged before more is waited for
  }
  return total;
}

void InputFile::rewind() {
  lseek(is_pipe() ? state_->spool_fd : state_->fd, 0, SEEK_SET);
  state_->at_bytes = 0;
}

void InputFile::seek(std::uint64_t at_bytes) {
  ALLOCMARK_ASSERT(!is_pipe());
  lseek(state_->fd, static_cast<off_t>(at_bytes), SEEK_SET);
  state_->at_bytes = at_bytes;
}

std::uint64_t InputFile::size_bytes() const { return state_->size_bytes; }

bool InputFile::is_pipe() const { return state_->spool_fd >= 0; }

std::string read_file(const std::string& path, const InputKind& kind) {
  InputFile file(path, kind);
  std::string text;
  std::string chunk(kChunkBytes, '\0');
  while (const std::size_t count = file.read(chunk)) text.append(chunk, 0, count);
  return text;
}

}  // namespace allocmark
