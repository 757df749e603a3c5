#include "workloads/trace/event_file.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace allocmark {
namespace {

constexpr const char* kPlace = "the events that a process is handed";

void write_batch(std::span<const Event> events, int fd) {
  std::span<const std::byte> rest = std::as_bytes(events);
  while (!rest.empty()) {
    const ssize_t count = write(fd, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw WriteError({.what = "cannot hand a trace to a process",
                        .where = kPlace,
                        .wanted = fmt::format("room for {} bytes", rest.size()),
                        .got = std::strerror(errno),
                        .next = "give this program more memory"});
    }
    rest = rest.subspan(static_cast<std::size_t>(count));
  }
}

class EventFileSource final : public EventSource {
 public:
  EventFileSource(int fd, EventFile file) : fd_(fd), file_(std::move(file)) {}

  std::span<const Event> next() override {
    const std::uint64_t left = file_.event_count - event_index_;
    batch_.resize(std::min<std::uint64_t>(left, kBatchEventCount));
    read_batch();
    event_index_ += batch_.size();
    return batch_;
  }
  void rewind() override { event_index_ = 0; }
  const TraceHeader& header() const override { return file_.header; }
  const std::vector<std::string>& labels() const override { return file_.labels; }

 private:
  void read_batch();

  int fd_;
  EventFile file_;
  std::uint64_t event_index_ = 0;  // of the next one
  std::vector<Event> batch_;
};

void EventFileSource::read_batch() {
  std::span<std::byte> rest = std::as_writable_bytes(std::span(batch_));
  std::uint64_t at_bytes = event_index_ * sizeof(Event);
  while (!rest.empty()) {
    const ssize_t count = pread(fd_, rest.data(), rest.size(), static_cast<off_t>(at_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw FileError({.what = "a trace ends before its end",
                       .where = kPlace,
                       .wanted = fmt::format("{} events", file_.event_count),
                       .got = count < 0 ? std::strerror(errno)
                                        : fmt::format("{} events", at_bytes / sizeof(Event)),
                       .next = "start the command again"});
    }
    at_bytes += static_cast<std::uint64_t>(count);
    rest = rest.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

EventFile write_events(EventSource& source, int fd) {
  EventFile file;
  while (true) {
    const std::span<const Event> events = source.next();
    if (events.empty()) break;
    write_batch(events, fd);
    file.event_count += events.size();
  }
  file.header = source.header();
  file.labels = source.labels();
  return file;
}

std::unique_ptr<EventSource> read_events(int fd, EventFile file) {
  return std::make_unique<EventFileSource>(fd, std::move(file));
}

}  // namespace allocmark
