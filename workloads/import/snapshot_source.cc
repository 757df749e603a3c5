// A snapshot's history as events: what the program asked for, in order, with unrounded sizes. What
// the allocator did by itself (segments) is left out; a burst of released segments that no request
// explains is a call of empty_cache.
#include "workloads/import/snapshot_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/recording.h"
#include "workloads/import/snapshot_history.h"
#include "workloads/import/snapshot_pools.h"
#include "workloads/trace/event_batch.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

constexpr std::uint32_t kStreamUnknown = ~std::uint32_t{0};

class SnapshotSource final : public EventSource {
 public:
  explicit SnapshotSource(std::shared_ptr<const DeviceHistory> history)
      : owner_(std::move(history)),
        history_(*owner_),
        snapshot_(history_.snapshot()),
        earlier_(history_.earlier_blocks()),
        pools_(entry_pools(history_, final_pools(history_))) {
    header_ = {.name = recording_name(snapshot_.path), .generator = "recorded", .seed = 0};
    for (const DeviceHistory::LateFree& late : history_.late_frees()) {
      if (late.certain) late_.insert(late.requested_index);
    }
    collect_marks();
    rewind();
  }

  // All streams are known from here on, as a run wants it.
  void count_streams() {
    while (!next().empty()) {
    }
    rewind();
  }

  std::span<const Event> next() override;
  void rewind() override;
  const TraceHeader& header() const override { return header_; }
  const std::vector<std::string>& labels() const override { return batch_.labels(); }

 private:
  void collect_marks();
  void add(const SnapshotEntry& entry);
  void allocate(std::uint64_t address, std::uint64_t size_bytes, std::uint32_t stream);
  void free(const SnapshotEntry& entry);
  [[nodiscard]] std::uint32_t stream_of(const SnapshotEntry& entry);
  [[nodiscard]] std::uint32_t stream_index(std::uint32_t stream, std::uint32_t pool);
  [[noreturn]] void fail(std::string what) const;

  std::shared_ptr<const DeviceHistory> owner_;
  const DeviceHistory& history_;
  const MemorySnapshot& snapshot_;
  const std::vector<EarlierBlock>& earlier_;
  std::vector<std::uint16_t> pools_;                            // by entry
  std::vector<std::pair<std::uint64_t, std::uint32_t>> marks_;  // time and text, by time
  TraceHeader header_;
  EventBatch batch_;
  std::size_t earlier_at_ = 0;
  std::size_t mark_at_ = 0;
  std::uint64_t entry_at_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> ids_;  // address -> id
  std::vector<std::uint32_t> stream_indexes_;             // by the snapshot's index
  std::unordered_set<std::uint64_t> late_;     // entries of frees that another stream delayed
  std::unordered_set<std::uint64_t> waiting_;  // addresses of such blocks now
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> pool_streams_;
  std::uint32_t stream_count_ = 1;
};

void SnapshotSource::fail(std::string what) const {
  throw UsageError(
      {.what = std::move(what),
       .where =
           fmt::format("{}, device {}, entry {}", snapshot_.path, history_.device(), entry_at_),
       .wanted = "a complete history of one process",
       .got = "",
       .next = "record again, without skip_actions and without restarting the history"});
}

// Ranges that are steps: those of the profiler and of optimizers, and what the program calls so.
void SnapshotSource::collect_marks() {
  for (const SnapshotAnnotation& annotation : snapshot_.annotations) {
    std::string name = snapshot_.texts[annotation.name];
    std::ranges::transform(name, name.begin(),
                           [](unsigned char letter) { return std::tolower(letter); });
    const bool is_label = name.size() <= 256 && name.find(',') == std::string::npos &&
                          std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
    if (annotation.is_start && is_label && name.find("step") != std::string::npos)
      marks_.emplace_back(annotation.time_us, annotation.name);
  }
  std::ranges::stable_sort(marks_, {}, &std::pair<std::uint64_t, std::uint32_t>::first);
}

void SnapshotSource::rewind() {
  batch_.reset();
  earlier_at_ = mark_at_ = 0;
  entry_at_ = 0;
  ids_.clear();
  waiting_.clear();
  stream_indexes_.assign(snapshot_.streams.size(), kStreamUnknown);
  stream_indexes_[0] = 0;  // the default stream
  pool_streams_.clear();
  stream_count_ = 1;
}

// A trace has no pools. A stream of its own keeps a pool's memory apart as a pool does.
std::uint32_t SnapshotSource::stream_index(std::uint32_t stream, std::uint32_t pool) {
  if (pool != 0) {
    const auto [found, is_new] = pool_streams_.try_emplace({stream, pool}, stream_count_);
    stream_count_ += is_new ? 1 : 0;
    return found->second;
  }
  if (stream_indexes_[stream] == kStreamUnknown) stream_indexes_[stream] = stream_count_++;
  return stream_indexes_[stream];
}

std::uint32_t SnapshotSource::stream_of(const SnapshotEntry& entry) {
  return stream_index(static_cast<std::uint32_t>(entry.stream),
                      pools_.empty() ? 0 : pools_[entry_at_]);
}

void SnapshotSource::allocate(std::uint64_t address, std::uint64_t size_bytes,
                              std::uint32_t stream) {
  const auto [found, is_new] = ids_.try_emplace(address, 0);
  if (!is_new) {
    fail(fmt::format("the block at {:#x} is allocated twice without a free in between", address));
  }
  found->second = batch_.allocate({.size_bytes = size_bytes, .stream = stream});
}

void SnapshotSource::free(const SnapshotEntry& entry) {
  const auto found = ids_.find(entry.address);
  if (found == ids_.end()) fail(fmt::format("a free of {:#x}, which is not live", entry.address));
  batch_.free(found->second);
  ids_.erase(found);
}

void SnapshotSource::add(const SnapshotEntry& entry) {
  if (entry.synthetic) return;
  switch (entry.action) {
    case SnapshotAction::Alloc:
      return allocate(entry.address, entry.size_bytes, stream_of(entry));
    case SnapshotAction::FreeRequested:
      if (!late_.contains(entry_at_)) return free(entry);
      waiting_.insert(entry.address);
      return;
    case SnapshotAction::FreeCompleted:
      if (waiting_.erase(entry.address) > 0) free(entry);
      return;
    case SnapshotAction::Oom:
      batch_.free(batch_.allocate({.size_bytes = entry.size_bytes,
                                   .stream = stream_of(entry),
                                   .tensor = TensorKind::Failed}));
      return;
    case SnapshotAction::SegmentFree:
    case SnapshotAction::SegmentUnmap:
      if (history_.is_empty_cache(entry_at_ + 1)) batch_.trim();
      return;
    default:
      return;
  }
}

std::span<const Event> SnapshotSource::next() {
  batch_.clear_events();
  if (earlier_at_ == 0 && entry_at_ == 0 && batch_.labels().empty()) batch_.mark("begin");
  for (; earlier_at_ < earlier_.size() && batch_.events().size() < kBatchEventCount;
       ++earlier_at_) {
    const EarlierBlock& block = earlier_[earlier_at_];
    if (block.pending) waiting_.insert(block.address);
    allocate(block.address, block.requested_bytes, stream_index(block.stream, block.pool));
  }
  while (entry_at_ < history_.size() && batch_.events().size() < kBatchEventCount) {
    const SnapshotEntry& entry = history_[entry_at_];
    while (mark_at_ < marks_.size() && marks_[mark_at_].first <= entry.time_us)
      batch_.mark(snapshot_.texts[marks_[mark_at_++].second]);
    add(entry);
    ++entry_at_;
  }
  header_.stream_count = std::max(header_.stream_count, stream_count_);
  return batch_.events();
}

// A history with its snapshot.
struct OwnedHistory {
  MemorySnapshot snapshot;
  DeviceHistory history{snapshot, snapshot.busiest_device()};
};

}  // namespace

std::unique_ptr<EventSource> snapshot_events(const DeviceHistory& history) {
  // It owns nothing.
  return std::make_unique<SnapshotSource>(
      std::shared_ptr<const DeviceHistory>(std::shared_ptr<const void>(), &history));
}

Recording open_pytorch_snapshot(const std::string& path) {
  MemorySnapshot snapshot = read_memory_snapshot(path);
  if (snapshot.entry_count(snapshot.busiest_device()) == 0) {
    throw_without_history(snapshot);
  }
  const std::shared_ptr<const OwnedHistory> owned(new OwnedHistory{std::move(snapshot)});
  const std::shared_ptr<const DeviceHistory> history(owned, &owned->history);
  auto source = std::make_unique<SnapshotSource>(history);
  source->count_streams();
  Recording recording;
  recording.notes = history->notes();
  recording.failed_count = history->facts().oom_count;
  if (history->facts().late_free_count > 0) {
    recording.notes.push_back(
        "the trace gives these blocks back when that stream was done with them, and they count as "
        "live until then; where memory is short, PyTorch would wait for them");
  }
  recording.events = std::move(source);
  return recording;
}

}  // namespace allocmark
