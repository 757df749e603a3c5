// A snapshot's history as events: what the program asked for, in order, with unrounded sizes. What
// the allocator did by itself (segments) is left out; a burst of released segments that no request
// explains is a call of empty_cache.
#include "workloads/import/snapshot_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/recording.h"
#include "workloads/import/snapshot_host.h"
#include "workloads/import/snapshot_restores.h"
#include "workloads/trace/event_batch.h"

namespace allocmark {
namespace {

constexpr std::uint32_t kStreamUnknown = ~std::uint32_t{0};

enum class HostRows : std::uint8_t { Kept, Dropped };

class SnapshotSource final : public EventSource {
 public:
  SnapshotSource(std::shared_ptr<const DeviceHistory> history, const PoolsOfGrowth& growth,
                 SnapshotPools pools, HostRows host_rows)
      : owner_(std::move(history)),
        history_(*owner_),
        snapshot_(history_.snapshot()),
        earlier_(history_.earlier_blocks()),
        pools_(pools == SnapshotPools::Dropped ? std::vector<std::uint16_t>()
                                               : entry_pools(history_, growth)),
        restores_(find_restores(history_, growth)) {
    header_ = {.name = recording_name(snapshot_.path), .generator = "recorded", .seed = 0};
    for (const DeviceHistory::LateFree& late : history_.late_frees()) {
      if (late.certain) late_.insert(late.requested_index);
    }
    collect_marks();
    if (host_rows == HostRows::Kept) host_steps_ = host_steps(snapshot_);
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
  void request(const SnapshotEntry& entry);
  void give_back(std::uint32_t pool);
  void route_to(std::uint32_t pool, std::optional<std::uint32_t> stream = std::nullopt);
  void end_route();
  void empty_caches();
  void add_host_until(std::uint64_t time_us);
  void end_use(std::uint32_t pool);
  void pool_step(EventKind kind, std::uint64_t pool_id) {
    batch_.pool({.id = pool_id, .kind = kind});
  }
  [[nodiscard]] std::uint32_t pool_of(std::uint64_t index) const {
    return pools_.empty() ? 0 : pools_[index];
  }
  [[nodiscard]] std::uint32_t stream_index(std::uint32_t stream);
  [[noreturn]] void fail(std::string what) const;

  std::shared_ptr<const DeviceHistory> owner_;
  const DeviceHistory& history_;
  const MemorySnapshot& snapshot_;
  const std::vector<EarlierBlock>& earlier_;
  std::vector<std::uint16_t> pools_;  // by entry
  Restores restores_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> marks_;  // time and text, by time
  std::vector<HostStep> host_steps_{};                          // by time
  TraceHeader header_;
  EventBatch batch_;
  std::size_t earlier_at_ = 0;
  std::size_t mark_at_ = 0;
  std::size_t host_at_ = 0;
  std::uint64_t entry_at_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> ids_;       // address -> id
  std::unordered_map<std::uint64_t, std::uint64_t> host_ids_;  // likewise, of the host
  std::vector<std::uint32_t> stream_indexes_;                  // by the snapshot's index
  std::unordered_set<std::uint64_t> late_;     // entries of frees that another stream delayed
  std::unordered_set<std::uint64_t> waiting_;  // addresses of such blocks now
  struct TracePool {
    std::uint64_t id = 0;
    bool used = false;
  };
  std::map<std::uint32_t, TracePool> trace_pools_;  // by the snapshot's index
  std::uint64_t pool_count_ = 0;
  std::uint32_t routed_ = 0;                        // the pool that requests go to now
  std::optional<std::uint32_t> captured_stream_{};  // of the graph that is captured into it
  std::vector<std::uint32_t> giving_;  // pools that give memory back, until a request comes
  std::uint32_t stream_count_ = 1;
};

void SnapshotSource::fail(std::string what) const {
  throw UsageError(
      {.what = std::move(what),
       .where =
           fmt::format("{}, device {}, entry {}", snapshot_.path, history_.device(), entry_at_),
       .wanted = "a complete history of one process",
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
  earlier_at_ = mark_at_ = host_at_ = 0;
  entry_at_ = 0;
  ids_.clear();
  host_ids_.clear();
  waiting_.clear();
  stream_indexes_.assign(snapshot_.streams.size(), kStreamUnknown);
  stream_indexes_[0] = 0;  // the default stream
  trace_pools_.clear();
  pool_count_ = 0;
  routed_ = 0;
  captured_stream_.reset();
  giving_.clear();
  stream_count_ = 1;
}

std::uint32_t SnapshotSource::stream_index(std::uint32_t stream) {
  if (stream_indexes_[stream] == kStreamUnknown) stream_indexes_[stream] = stream_count_++;
  return stream_indexes_[stream];
}

void SnapshotSource::end_route() {
  if (routed_ == 0) return;
  const std::uint64_t id = trace_pools_[routed_].id;
  if (captured_stream_)
    batch_.pool({.id = id, .stream = *captured_stream_, .kind = EventKind::CaptureEnd});
  captured_stream_.reset();
  pool_step(EventKind::PoolEnd, id);
  pool_step(EventKind::PoolRelease, id);
  routed_ = 0;
}

// A snapshot says which pool served a request, and not when routing to it began and ended: it
// begins at the first request of the pool, and ends at the next one of another. Requests of a pool
// that a graph made are a capture on the stream of the first; no default stream can be captured.
void SnapshotSource::route_to(std::uint32_t pool, std::optional<std::uint32_t> stream) {
  if (!is_of_graph(snapshot_, pool) || stream == 0) stream.reset();
  if (pool == routed_ && stream.has_value() == captured_stream_.has_value()) return;
  end_route();
  routed_ = pool;
  if (pool == 0) return;
  TracePool& used = trace_pools_[pool];
  if (!used.used) {
    used = {.id = ++pool_count_, .used = true};
    pool_step(EventKind::PoolCreate, used.id);
  }
  batch_.pool({.id = used.id, .size_bytes = 1, .kind = EventKind::PoolBegin});
  captured_stream_ = stream;
  if (stream) batch_.pool({.id = used.id, .stream = *stream, .kind = EventKind::CaptureBegin});
}

void SnapshotSource::request(const SnapshotEntry& entry) {
  const std::uint32_t stream = stream_index(static_cast<std::uint32_t>(entry.stream));
  route_to(pool_of(entry_at_), stream);
  if (entry.action == SnapshotAction::Alloc)
    return allocate(entry.address, entry.size_bytes, stream);
  batch_.free(batch_.allocate(
      {.size_bytes = entry.size_bytes, .stream = stream, .tensor = TensorKind::Failed}));
}

// The allocator gave memory of the pool back. At the end of such entries it is told why.
void SnapshotSource::give_back(std::uint32_t pool) {
  if (std::ranges::find(giving_, pool) == giving_.end()) giving_.push_back(pool);
  std::uint64_t next = entry_at_ + 1;
  while (next < history_.size() && history_[next].action == SnapshotAction::FreeCompleted) ++next;
  if (next == history_.size() || !is_release(history_[next].action)) empty_caches();
}

// Nobody uses a pool any more whose memory goes back, unless it is for a request of its own. Was it
// the program that asked, then either for all pools, or for one alone. A request of a private pool
// that takes memory comes after an empty_cache, too: a capture gives nothing back.
void SnapshotSource::empty_caches() {
  std::uint64_t next = entry_at_ + 1;
  while (next < history_.size() && !is_request(history_[next].action)) ++next;
  const bool asks =
      next < history_.size() && history_[next].action != SnapshotAction::FreeRequested;
  const std::uint32_t asking = asks ? pool_of(next) : 0;
  const bool common = std::ranges::find(giving_, 0u) != giving_.end();
  const bool by_program = asking != 0 || history_.is_empty_cache(entry_at_ + 1);
  std::erase_if(giving_, [&](std::uint32_t pool) {
    return pool == 0 || pool == asking || !trace_pools_.contains(pool);
  });
  if (common || !giving_.empty()) route_to(0);
  for (const std::uint32_t pool : giving_) {
    end_use(pool);
    if (by_program && !common) batch_.pool({.id = trace_pools_[pool].id, .kind = EventKind::Trim});
  }
  if (by_program && common) batch_.trim();
  giving_.clear();
}

void SnapshotSource::end_use(std::uint32_t pool) {
  TracePool& used = trace_pools_[pool];
  if (used.used) pool_step(EventKind::PoolRelease, used.id);
  used.used = false;
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
  if (entry.synthetic || restores_.frees.contains(entry_at_)) return;
  // Of a pool that is put back only what stays is asked for again.
  if (const bool* const stays = restores_.find(entry_at_); stays != nullptr && !*stays) return;
  switch (entry.action) {
    case SnapshotAction::Alloc:
    case SnapshotAction::Oom:
      return request(entry);
    case SnapshotAction::FreeRequested:
      if (!late_.contains(entry_at_)) return free(entry);
      waiting_.insert(entry.address);
      return;
    case SnapshotAction::FreeCompleted:
      if (waiting_.erase(entry.address) > 0) free(entry);
      return;
    case SnapshotAction::SegmentFree:
    case SnapshotAction::SegmentUnmap:
      return give_back(pool_of(entry_at_));
    default:
      return;
  }
}

void SnapshotSource::add_host_until(std::uint64_t time_us) {
  for (; host_at_ < host_steps_.size() && host_steps_[host_at_].time_us <= time_us; ++host_at_) {
    const HostStep& step = host_steps_[host_at_];
    std::uint64_t& id = host_ids_[step.address];
    if (step.size_bytes > 0) {
      id = batch_.host_allocate(step.size_bytes);
    } else {
      batch_.host_free(id);
    }
  }
}

std::span<const Event> SnapshotSource::next() {
  batch_.clear_events();
  if (earlier_at_ == 0 && entry_at_ == 0 && batch_.labels().empty()) batch_.mark("begin");
  for (; earlier_at_ < earlier_.size() && batch_.events().size() < kBatchEventCount;
       ++earlier_at_) {
    const EarlierBlock& block = earlier_[earlier_at_];
    if (block.pending) waiting_.insert(block.address);
    route_to(pools_.empty() ? 0 : block.pool);
    allocate(block.address, block.requested_bytes, stream_index(block.stream));
  }
  while (entry_at_ < history_.size() && batch_.events().size() < kBatchEventCount) {
    const SnapshotEntry& entry = history_[entry_at_];
    while (mark_at_ < marks_.size() && marks_[mark_at_].first <= entry.time_us)
      batch_.mark(snapshot_.texts[marks_[mark_at_++].second]);
    add_host_until(entry.time_us);
    add(entry);
    ++entry_at_;
  }
  if (entry_at_ == history_.size() && earlier_at_ == earlier_.size()) {
    route_to(0);
    add_host_until(~std::uint64_t{0});
  }
  header_.stream_count = std::max(header_.stream_count, stream_count_);
  return batch_.events();
}

// Set once by main, as the commands are.
PoolFinder& pool_finder() {
  static PoolFinder finder = nullptr;
  return finder;
}

// A history with its snapshot.
struct OwnedHistory {
  MemorySnapshot snapshot;
  DeviceHistory history{snapshot, snapshot.main_device()};
};

}  // namespace

void set_pool_finder(PoolFinder finder) { pool_finder() = finder; }

std::unique_ptr<EventSource> snapshot_events(const DeviceHistory& history,
                                             const PoolsOfGrowth& growth, SnapshotPools pools) {
  // It owns nothing.
  return std::make_unique<SnapshotSource>(
      std::shared_ptr<const DeviceHistory>(std::shared_ptr<const void>(), &history), growth, pools,
      HostRows::Dropped);
}

Recording open_pytorch_snapshot(const std::string& path) {
  MemorySnapshot snapshot = read_memory_snapshot(path);
  if (snapshot.entry_count(snapshot.main_device()) == 0 && snapshot.host.entries.empty()) {
    throw_without_history(snapshot);
  }
  const std::shared_ptr<const OwnedHistory> owned(new OwnedHistory{std::move(snapshot)});
  const std::shared_ptr<const DeviceHistory> history(owned, &owned->history);
  std::optional<PoolsOfGrowth> found =
      pool_finder() == nullptr ? std::nullopt : pool_finder()(*history);
  const PoolsOfGrowth growth = found ? std::move(*found) : final_pools(*history);
  auto source =
      std::make_unique<SnapshotSource>(history, growth, SnapshotPools::Kept, HostRows::Kept);
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
