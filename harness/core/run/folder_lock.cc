// See folder_lock.h.
#include "harness/core/run/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include "base/error.h"
#include "harness/core/run/environment.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_unusable(const std::string& folder, int error) {
  throw FileError({.what = "cannot make or write the results folder",
                   .where = folder,
                   .wanted = "a folder that can be written and has room",
                   .got = std::strerror(error),
                   .next = "choose another one with --out DIR; what is already in it is kept"});
}

// "process 1234 on node7, since 2026-11-22T16:00:00Z", as the holder wrote it; the file may be of
// anybody.
std::string read_holder(int descriptor) {
  std::array<char, 200> text{};
  const ssize_t length = pread(descriptor, text.data(), text.size(), 0);
  std::string holder(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  holder.erase(std::min(holder.find('\n'), holder.size()));
  return holder.empty() ? "another process" : printable(holder);
}

// Best effort: a full disk must not stop a run that may still end well.
void write_holder(int descriptor) {
  const std::string holder = fmt::format("process {} on {}, since {:%Y-%m-%dT%H:%M:%SZ}\n",
                                         getpid(), host_name(), fmt::gmtime(std::time(nullptr)));
  [[maybe_unused]] const int cut = ftruncate(descriptor, 0);
  [[maybe_unused]] const ssize_t written = pwrite(descriptor, holder.data(), holder.size(), 0);
}

// False where the file was removed by the holder between our opening and our locking it.
bool is_still_there(int descriptor, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

int lock_now(int descriptor) {
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

bool holds_something(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename() != kLockName) return true;
  }
  if (error) throw_unusable(folder, error.value());
  return false;
}

FolderLock FolderLock::acquire(const std::string& folder) {
  const std::string path = (fs::path(folder) / kLockName).string();
  while (true) {
    // The run's children must not hold the lock when the run is over.
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0) throw_unusable(folder, errno);
    const int error = lock_now(descriptor);
    if (error == EWOULDBLOCK) {
      const std::string holder = read_holder(descriptor);
      close(descriptor);
      throw EnvironmentError({.what = "a run is writing to this folder",
                              .where = folder,
                              .wanted = "one run at a time in a folder",
                              .got = holder,
                              .next = "wait until it has ended, or choose another --out DIR"});
    }
    if (error != 0) {
      fmt::print(stderr,
                 "note: {} cannot be locked ({}): let no second run write to it meanwhile\n",
                 folder, std::strerror(error));
    } else if (!is_still_there(descriptor, path)) {
      close(descriptor);
      continue;
    }
    write_holder(descriptor);
    return {descriptor, path};
  }
}

FolderLock::FolderLock(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

// The file goes first: who opens it after that makes a new one, and who had it open looks again.
FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  unlink(path_.c_str());
  close(descriptor_);
}

FolderLock claim_empty_folder(const std::string& folder, const std::string& next) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_unusable(folder, error.value());
  const auto refuse_if_used = [&] {
    if (!holds_something(folder)) return;
    throw UsageError({.what = "the results folder is not empty",
                      .where = folder,
                      .wanted = "a new or an empty folder",
                      .next = next});
  };
  // A folder of somebody else's gets no file of ours, not even for a moment.
  if (!fs::exists(fs::path(folder) / kLockName, error)) refuse_if_used();
  FolderLock lock = FolderLock::acquire(folder);
  refuse_if_used();
  return lock;
}

std::string make_new_folder(const std::string& wanted) {
  std::error_code error;
  const fs::path parent = fs::path(wanted).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) throw_unusable(parent.string(), error.value());
  std::string folder = wanted;
  for (std::uint64_t number = 2; mkdir(folder.c_str(), 0777) != 0; ++number) {
    if (errno != EEXIST) throw_unusable(folder, errno);
    folder = fmt::format("{}-{}", wanted, number);
  }
  return folder;
}

}  // namespace allocmark
