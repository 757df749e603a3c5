#include "base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/number_text.h"
#include "base/write_fully.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr int kLinkCountMax = 40;
constexpr std::size_t kWaitingBytesMax = std::size_t{256} << 10;

[[noreturn]] void throw_unwritable(const std::string& path, const std::string& reason) {
  throw WriteError({.what = "cannot write the file",
                    .where = path,
                    .wanted = "a folder that can be written and has room",
                    .got = reason,
                    .next = "free some space or choose another place"});
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  if (const int error = write_fully(fd, bytes); error != 0)
    throw_unwritable(path, std::strerror(error));
}

// The number of "/proc/self/fd/1", "/proc/123/fd/1" or "/dev/fd/1"; -1 for every other path.
int descriptor_of(const std::string& path) {
  const fs::path named(path);
  const std::string folder = named.parent_path().string();
  const bool of_process = folder.starts_with("/proc/") && folder.ends_with("/fd");
  if (!of_process && folder != "/dev/fd") return -1;
  return number_in_text<int>(named.filename().string()).value_or(-1);
}

// Where the path leads once its links are followed, also where nothing is there yet.
std::string end_of_links(std::string path) {
  for (int count = 0; count < kLinkCountMax; ++count) {
    std::error_code error;
    if (descriptor_of(path) >= 0) return path;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return path;
    path = (target.is_absolute() ? target : fs::path(path).parent_path() / target).string();
  }
  throw_unwritable(path, "links that lead to each other");
}

// A pipe is opened once somebody reads it.
int open_through(const std::string& path) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(kReaderWaitMs);
  while (true) {
    const int fd = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      return fd;
    }
    if (errno != ENXIO) throw_unwritable(path, std::strerror(errno));
    if (Clock::now() > deadline) throw_unwritable(path, "a pipe that nobody reads");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A folder's entry is on the disk only once the folder is; not every file system can do it.
void sync_folder(const fs::path& folder) {
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const int ignored = fsync(fd);
  close(fd);
}

// The file, empty and locked by this process: a new one, or what a writer that was killed left
// behind. -1 where another process writes it, or where it is not a plain file of this user's own.
int open_locked(const std::string& path) {
  while (true) {
    const int fd = open(path.c_str(),
                        O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    struct stat opened {
    }, named{};
    const bool is_plain = fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) &&
                          opened.st_uid == geteuid() && opened.st_nlink <= 1;
    if (!is_plain || flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      return -1;
    }
    // Its writer may have given it its name, or taken it away, before it was locked here.
    const bool is_same = stat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
                         named.st_dev == opened.st_dev;
    if (is_same && ftruncate(fd, 0) == 0) return fd;
    close(fd);
    if (is_same) return -1;
  }
}

}  // namespace

struct OutputFile::State {
  std::string path;       // as given, for messages
  std::string target;     // where its links lead
  std::string part_path;  // the file beside it; empty where bytes go straight through
  int fd = -1;
  std::string waiting;  // not handed to the system yet

  ~State() {
    // While it is still locked: after that it may be another process's.
    if (!part_path.empty()) unlink(part_path.c_str());
    if (fd >= 0) close(fd);
  }
  void open_part(mode_t mode);
};

void OutputFile::State::open_part(mode_t mode) {
  const fs::path named(target);
  const auto beside = [&](const std::string& name) {
    return (named.parent_path() / name).string();
  };
  part_path = beside(fmt::format(".{}.part", named.filename().string()));
  fd = open_locked(part_path);
  if (fd < 0) {
    // Another process writes the same file, or this file system has no locks.
    part_path = beside(fmt::format(".{}.{}.part", named.filename().string(), getpid()));
    unlink(part_path.c_str());
    fd = open(part_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (fd < 0) {
    part_path.clear();
    throw_unwritable(path, std::strerror(errno));
  }
  if (mode != 0) [[maybe_unused]]
    const int ignored = fchmod(fd, mode);
}

OutputFile::OutputFile(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->target = end_of_links(path);
  if (const int open_fd = descriptor_of(state_->target); open_fd >= 0) {
    state_->fd = fcntl(open_fd, F_DUPFD_CLOEXEC, 10);
    if (state_->fd < 0) throw_unwritable(path, std::strerror(errno));
    return;
  }
  struct stat status {};
  const bool there = stat(state_->target.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) throw_unwritable(path, "a folder");
  if (there && !S_ISREG(status.st_mode)) {
    state_->fd = open_through(state_->target);
  } else {
    state_->open_part(there ? status.st_mode & 0777 : 0);
  }
}

OutputFile::~OutputFile() = default;

void OutputFile::write(std::string_view bytes) {
  state_->waiting += bytes;
  if (state_->waiting.size() < kWaitingBytesMax) return;
  write_all(state_->fd, state_->waiting, state_->path);
  state_->waiting.clear();
}

void OutputFile::finish() {
  write_all(state_->fd, std::exchange(state_->waiting, {}), state_->path);
  const bool through = state_->part_path.empty();
  if (!through && fsync(state_->fd) != 0) throw_unwritable(state_->path, std::strerror(errno));
  if (!through && std::rename(state_->part_path.c_str(), state_->target.c_str()) != 0) {
    throw_unwritable(state_->path, std::strerror(errno));
  }
  state_->part_path.clear();
  if (close(std::exchange(state_->fd, -1)) != 0) {
    throw_unwritable(state_->path, std::strerror(errno));
  }
  if (through) return;
  sync_folder(fs::path(state_->target).parent_path());
}

void write_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}

LineFile::LineFile(int fd, std::string path, std::uint64_t size_bytes)
    : fd_(fd), path_(std::move(path)), size_bytes_(size_bytes) {}

LineFile::LineFile(LineFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      size_bytes_(other.size_bytes_) {}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

LineFile LineFile::create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd < 0) throw_unwritable(path, std::strerror(errno));
  LineFile file(fd, path, 0);
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != 0) {
    throw_unwritable(path, "a file that holds something already");
  }
  return file;
}

LineFile LineFile::replace(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd < 0) throw_unwritable(path, std::strerror(errno));
  LineFile file(fd, path, 0);
  if (ftruncate(fd, 0) != 0) throw_unwritable(path, std::strerror(errno));
  return file;
}

LineFile LineFile::resume(const std::string& path, std::uint64_t size_bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) throw_unwritable(path, std::strerror(errno));
  LineFile file(fd, path, size_bytes);
  if (ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) {
    throw_unwritable(path, std::strerror(errno));
  }
  return file;
}

void LineFile::append(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  try {
    write_all(fd_, bytes, path_);
  } catch (const WriteError&) {
    // Best effort: where this fails too, readers take the rest for a line that was cut short.
    [[maybe_unused]] const int ignored = ftruncate(fd_, static_cast<off_t>(size_bytes_));
    throw;
  }
  size_bytes_ += bytes.size();
}

}  // namespace allocmark
