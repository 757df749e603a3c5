#include "harness/tools/capture/preload/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace allocmark_capture {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20;

// No descriptor stays open between windows: a program may close all of them and use their numbers.
struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd;
};

}  // namespace

void TraceFile::fail(const char* doing) {
  problem_ = path_ + ": " + doing + ": " + std::strerror(errno);
  unmap_window();
}

bool TraceFile::create(const std::string& folder, const std::string& stem, std::string_view name) {
  int fd = -1;
  for (int number = 1; number < 1000 && fd < 0; ++number) {
    path_ = folder + "/" + stem + (number > 1 ? "-" + std::to_string(number) : "") + ".ops.csv";
    fd = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST) break;
  }
  const Descriptor file(fd);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) {
    fail("cannot be made");
    return false;
  }
  device_id_ = status.st_dev;
  file_id_ = status.st_ino;
  end_ = 0;
  if (!map_window()) return false;
  void* const head = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (head == MAP_FAILED) {
    fail("cannot be mapped");
    return false;
  }
  head_ = static_cast<char*>(head);
  const std::string before =
      "# name: " + std::string(name) + "\n# generator: captured\n# streams: ";
  stream_count_at_ = before.size();
  const std::string text = before + "1   \nop,id,size,stream,tensor\nmark,begin,0,0,\n";
  append(text.data(), text.size());
  return true;
}

// The window that begins with the page of the next row. Its blocks are taken from the file system
// now: storing to a page that a full disk cannot back would end the program.
bool TraceFile::map_window() {
  unmap_window();
  const Descriptor file(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (file.fd < 0 || fstat(file.fd, &status) != 0) {
    fail("cannot be opened again");
    return false;
  }
  if (status.st_dev != device_id_ || status.st_ino != file_id_) {
    errno = ESTALE;
    fail("was replaced by another file");
    return false;
  }
  const std::uint64_t begin = end_ / kPageBytes * kPageBytes;
  errno = posix_fallocate(file.fd, static_cast<off_t>(begin), static_cast<off_t>(kWindowBytes));
  if (errno != 0) {
    fail("cannot grow");
    return false;
  }
  void* const window = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, file.fd, static_cast<off_t>(begin));
  if (window == MAP_FAILED) {
    fail("cannot be mapped");
    return false;
  }
  window_ = static_cast<char*>(window);
  window_begin_ = begin;
  return true;
}

void TraceFile::unmap_window() {
  if (window_ != nullptr) munmap(window_, kWindowBytes);
  window_ = nullptr;
}

void TraceFile::append(const char* row, std::size_t size) {
  if (window_ == nullptr) return;
  if (end_ + size > window_begin_ + kWindowBytes && !map_window()) return;
  std::memcpy(window_ + (end_ - window_begin_), row, size);
  end_ += size;
}

void TraceFile::set_stream_count(std::uint32_t count) {
  char digits[8];
  const int length = std::snprintf(digits, sizeof digits, "%u", count);
  if (head_ != nullptr && length > 0 && length <= 4) {
    std::memcpy(head_ + stream_count_at_, digits, static_cast<std::size_t>(length));
  }
}

void TraceFile::finish() {
  if (!is_open()) return;
  forget();
  const Descriptor file(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (file.fd >= 0 && fstat(file.fd, &status) == 0 && status.st_dev == device_id_ &&
      status.st_ino == file_id_ && ftruncate(file.fd, static_cast<off_t>(end_)) != 0) {
    fail("cannot be cut to its end");
  }
}

void TraceFile::forget() {
  unmap_window();
  if (head_ != nullptr) munmap(head_, kPageBytes);
  head_ = nullptr;
}

}  // namespace allocmark_capture
