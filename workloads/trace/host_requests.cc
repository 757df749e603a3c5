// See host_requests.h.
#include "workloads/trace/host_requests.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace allocmark {
namespace {

// The kind that the event becomes; nothing where it is left out.
std::optional<EventKind> kind_on_host(EventKind kind) {
  switch (kind) {
    case EventKind::HostAlloc:
      return EventKind::Alloc;
    case EventKind::HostFree:
      return EventKind::Free;
    case EventKind::HostRecord:
      return EventKind::Record;
    case EventKind::Kernel:
    case EventKind::Busy:
    case EventKind::Host:
    case EventKind::Sync:
    case EventKind::Mark:
      return kind;
    default:
      return std::nullopt;  // of the device's allocator
  }
}

class HostRequests final : public EventSource {
 public:
  explicit HostRequests(std::unique_ptr<EventSource> source) : source_(std::move(source)) {}

  [[nodiscard]] std::span<const Event> next() override {
    batch_.clear();
    while (batch_.empty()) {
      const std::span<const Event> events = source_->next();
      if (events.empty()) return {};
      for (Event event : events) {
        const std::optional<EventKind> kind = kind_on_host(event.kind);
        if (!kind) continue;
        event.kind = *kind;
        batch_.push_back(event);
      }
    }
    return batch_;
  }
  void rewind() override { source_->rewind(); }
  [[nodiscard]] const TraceHeader& header() const override { return source_->header(); }
  [[nodiscard]] const std::vector<std::string>& labels() const override {
    return source_->labels();
  }

 private:
  std::unique_ptr<EventSource> source_;
  std::vector<Event> batch_{};
};

}  // namespace

bool has_host_requests(EventSource& source) {
  bool has = false;
  for (auto batch = source.next(); !has && !batch.empty(); batch = source.next())
    has = std::ranges::find(batch, EventKind::HostAlloc, &Event::kind) != batch.end();
  source.rewind();
  return has;
}

std::unique_ptr<EventSource> host_requests_of(std::unique_ptr<EventSource> source) {
  return std::make_unique<HostRequests>(std::move(source));
}

}  // namespace allocmark
