// What generators write into: the events of one batch, block ids that count up, and label indexes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workloads/trace/event.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {

struct BlockSpec {
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
  TensorKind tensor = TensorKind::Unknown;
};

class EventBatch {
 public:
  // Numbered marks repeat after so many: labels are kept by the source, and their memory must not
  // grow with the trace.
  static constexpr std::uint64_t kNumberedMarkCount = 1000;

  // Returns the id of the new block.
  std::uint64_t allocate(const BlockSpec& block) {
    const std::uint64_t id = ++last_id_;
    events_.push_back({.id = id,
                       .size_bytes = block.size_bytes,
                       .stream = block.stream,
                       .kind = EventKind::Alloc,
                       .tensor = block.tensor});
    return id;
  }
  void free(std::uint64_t id) { events_.push_back({.id = id, .kind = EventKind::Free}); }
  void record(std::uint64_t id, std::uint32_t stream) {
    events_.push_back({.id = id, .stream = stream, .kind = EventKind::Record});
  }
  // Pinned memory of the host; ids are shared with those of the device. Returns the block's.
  std::uint64_t host_allocate(std::uint64_t size_bytes, TensorKind tensor = TensorKind::Unknown) {
    const std::uint64_t id = ++last_id_;
    events_.push_back(
        {.id = id, .size_bytes = size_bytes, .kind = EventKind::HostAlloc, .tensor = tensor});
    return id;
  }
  void host_free(std::uint64_t id) { events_.push_back({.id = id, .kind = EventKind::HostFree}); }
  void host_record(std::uint64_t id, std::uint32_t stream) {
    events_.push_back({.id = id, .stream = stream, .kind = EventKind::HostRecord});
  }
  void kernel(std::uint64_t duration_ns, std::uint32_t stream) {
    events_.push_back({.size_bytes = duration_ns, .stream = stream, .kind = EventKind::Kernel});
  }
  void busy(std::uint32_t stream) {
    events_.push_back({.stream = stream, .kind = EventKind::Busy});
  }
  void host(std::uint64_t duration_ns) {
    events_.push_back({.size_bytes = duration_ns, .kind = EventKind::Host});
  }
  void sync() { events_.push_back({.kind = EventKind::Sync}); }
  void trim() { events_.push_back({.kind = EventKind::Trim}); }
  // A step of a private pool as it stands elsewhere, with its flag and stream.
  void pool(const Event& event) { events_.push_back(event); }
  // "step" and 7 make "step7"; the label of `number` is that of number + kNumberedMarkCount.
  void mark(std::string_view stem, std::uint64_t number) {
    mark(std::string(stem) + std::to_string(number % kNumberedMarkCount));
  }
  void mark(std::string label) { push_mark(std::move(label), 0); }
  // News of a request, at a time in ns since the server's start, or bytes of managed memory
  // (request_marks.h).
  void mark(MarkClass mark_class, std::uint64_t number) {
    push_mark(std::string(mark_label(mark_class)), number);
  }

  // A meeting with other ranks (request_marks.h), `bytes` of which move on the stream.
  void meet(MarkClass mark_class, std::string_view name, const BlockSpec& bytes) {
    push_mark(std::string(mark_label(mark_class)).append(name), bytes.size_bytes);
    events_.back().stream = bytes.stream;
  }

  [[nodiscard]] const std::vector<Event>& events() const { return events_; }
  [[nodiscard]] const std::vector<std::string>& labels() const { return labels_; }
  // Drops the events of the last batch; ids and labels go on.
  void clear_events() { events_.clear(); }
  // As new.
  void reset() {
    events_.clear();
    labels_.clear();
    label_indexes_.clear();
    last_id_ = 0;
  }

 private:
  void push_mark(std::string label, std::uint64_t number) {
    const auto [found, is_new] = label_indexes_.try_emplace(label, labels_.size());
    if (is_new) labels_.push_back(std::move(label));
    events_.push_back({.id = found->second, .size_bytes = number, .kind = EventKind::Mark});
  }

  std::vector<Event> events_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::uint64_t> label_indexes_;
  std::uint64_t last_id_ = 0;
};

}  // namespace allocmark
