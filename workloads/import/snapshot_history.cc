#include "workloads/import/snapshot_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "base/bytes.h"
#include "workloads/import/snapshot_pools.h"

namespace allocmark {
namespace {

// Rings are sized by people: 100000, 1000000, 65536.
bool is_round(std::uint64_t count) {
  return count >= 1000 && (count % 1000 == 0 || std::has_single_bit(count));
}

void note_host(const SnapshotHost& host, std::vector<std::string>* notes) {
  if (host.segment_count == 0 && host.entries.empty()) return;
  notes->push_back(
      fmt::format("the snapshot also has {} segment{} of pinned memory of the host, {}, of which "
                  "{} are in use; all numbers are of the device, and sizes of the host as PyTorch "
                  "rounded them",
                  host.segment_count, host.segment_count == 1 ? "" : "s",
                  format_bytes(host.size_bytes), format_bytes(host.held_bytes)));
}

}  // namespace

DeviceHistory::DeviceHistory(const MemorySnapshot& snapshot, std::size_t device)
    : snapshot_(snapshot), device_(device) {
  if (device < snapshot.traces.size()) {
    for (const SnapshotRange& range : snapshot.traces[device]) {
      if (starts_.empty()) first_ = range.first;
      starts_.push_back(size_);
      size_ += range.count;
    }
  }
  for (std::uint64_t i = 0; i < size_; ++i) {
    const SnapshotEntry& entry = (*this)[i];
    facts_.synthetic_count += entry.synthetic;
    facts_.oom_count += entry.action == SnapshotAction::Oom ? 1 : 0;
    facts_.has_growth |= is_growth(entry.action);
    if (entry.action == SnapshotAction::Alloc) ++facts_.alloc_count;
  }
  find_earlier_blocks();
  const std::vector<std::uint16_t> pools = entry_pools(*this, final_pools(*this));
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (pools[i] == 0 || (*this)[i].action != SnapshotAction::Alloc) continue;
    ++facts_.pool_alloc_count;
    facts_.captured_count += is_of_graph(snapshot_, pools[i]) ? 1 : 0;
  }
  facts_.frees_at_once = lacks_completion();
  find_late_frees();
  find_needless_releases();
  count_late_frees();
  facts_.round_count = is_round(size_);
}

bool DeviceHistory::lacks_completion() const {
  std::unordered_set<std::uint64_t> pending;
  for (const SnapshotSegment& segment : snapshot_.segments) {
    for (const SnapshotBlock& block : snapshot_.blocks_of(segment)) {
      if (block.state == SnapshotBlockState::PendingFree) pending.insert(block.address);
    }
  }
  bool lacks = false;
  for (std::uint64_t i = 0; i < size_; ++i) {
    const SnapshotEntry& entry = (*this)[i];
    if (entry.action == SnapshotAction::FreeCompleted) return false;
    lacks |= entry.action == SnapshotAction::FreeRequested && !pending.contains(entry.address);
  }
  return lacks;
}

void DeviceHistory::count_late_frees() {
  std::map<std::uint64_t, std::uint64_t> ends;  // when bytes that wait now become free
  std::uint64_t waiting_bytes = 0;
  for (const LateFree& late : late_frees_) {
    if (!late.certain) continue;
    ++facts_.late_free_count;
    for (; !ends.empty() && ends.begin()->first < late.requested_index; ends.erase(ends.begin()))
      waiting_bytes -= ends.begin()->second;
    const std::uint64_t size_bytes = (*this)[late.requested_index].size_bytes;
    ends[late.completed_index] += size_bytes;
    waiting_bytes += size_bytes;
    facts_.late_bytes_peak = std::max(facts_.late_bytes_peak, waiting_bytes);
  }
}

const SnapshotEntry& DeviceHistory::in_ranges(std::uint64_t index) const {
  const std::vector<SnapshotRange>& ranges = snapshot_.traces[device_];
  std::size_t range = recent_.load(std::memory_order_relaxed);
  const bool inside = range < ranges.size() && index >= starts_[range] &&
                      index - starts_[range] < ranges[range].count;
  if (!inside) {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), index);
    range = static_cast<std::size_t>(after - starts_.begin()) - 1;
    recent_.store(range, std::memory_order_relaxed);
  }
  return snapshot_.entries[ranges[range].first + index - starts_[range]];
}

void DeviceHistory::find_earlier_blocks() {
  std::unordered_map<std::uint64_t, EarlierBlock> earlier;
  std::unordered_set<std::uint64_t> known;  // allocated, or seen to be given back
  for (std::uint64_t i = 0; i < size_; ++i) {
    const SnapshotEntry& entry = (*this)[i];
    const bool gives_back = entry.action == SnapshotAction::FreeRequested ||
                            entry.action == SnapshotAction::FreeCompleted;
    if (entry.action != SnapshotAction::Alloc && !gives_back) continue;
    // The address may be used again; only its first free can be of an older block.
    if (!known.insert(entry.address).second || !gives_back) continue;
    earlier[entry.address] = {.address = entry.address,
                              .requested_bytes = entry.size_bytes,
                              .stream = static_cast<std::uint32_t>(entry.stream),
                              .pool = static_cast<std::uint32_t>(entry.pool),
                              .pending = entry.action == SnapshotAction::FreeCompleted};
  }
  for (const SnapshotSegment& segment : snapshot_.segments) {
    if (static_cast<std::size_t>(segment.device) != device_) continue;
    for (const SnapshotBlock& block : snapshot_.blocks_of(segment)) {
      const auto found = earlier.find(block.address);
      if (found != earlier.end()) found->second.pool = segment.pool;
      if (block.state == SnapshotBlockState::Inactive || known.contains(block.address)) continue;
      earlier[block.address] = {.address = block.address,
                                .requested_bytes = block.requested_bytes,
                                .size_bytes = block.size_bytes,
                                .stream = segment.stream,
                                .pool = segment.pool,
                                .pending = block.state == SnapshotBlockState::PendingFree};
    }
  }
  earlier_blocks_.reserve(earlier.size());
  for (const auto& [address, block] : earlier) earlier_blocks_.push_back(block);
  std::ranges::sort(earlier_blocks_, {}, &EarlierBlock::address);
}

bool DeviceHistory::is_empty_cache(std::uint64_t index) const {
  while (index < size_ && (*this)[index].action == SnapshotAction::FreeCompleted) ++index;
  if (index == size_) return true;
  const SnapshotAction action = (*this)[index].action;
  if (needless_ends_.contains(index)) return true;
  return !is_release(action) && !is_growth(action) && action != SnapshotAction::Oom;
}

// A release for a request comes when the device has no more; so what was reserved then, and the
// request's segment, are more than there ever was. Garbage collection releases for other reasons.
void DeviceHistory::find_needless_releases() {
  if (snapshot_.settings.garbage_collection_threshold > 0) return;
  std::int64_t reserved_bytes = 0, peak_bytes = 0;  // beyond what there was at the start
  const auto follow = [&](const SnapshotEntry& entry) {
    const auto size_bytes = static_cast<std::int64_t>(entry.size_bytes);
    if (is_growth(entry.action)) reserved_bytes += size_bytes;
    if (is_release(entry.action)) reserved_bytes -= size_bytes;
  };
  for (std::uint64_t i = 0; i < size_; ++i) {
    follow((*this)[i]);
    peak_bytes = std::max(peak_bytes, reserved_bytes);
  }
  reserved_bytes = 0;
  std::optional<std::int64_t> before_bytes;  // while a burst goes on
  for (std::uint64_t i = 0; i < size_; ++i) {
    const SnapshotEntry& entry = (*this)[i];
    if (is_release(entry.action)) {
      if (!before_bytes) before_bytes = reserved_bytes;
    } else if (entry.action != SnapshotAction::FreeCompleted) {
      std::int64_t wanted_bytes = 0;
      for (std::uint64_t at = i; at < size_ && is_growth((*this)[at].action); ++at)
        wanted_bytes += static_cast<std::int64_t>((*this)[at].size_bytes);
      if (before_bytes && wanted_bytes > 0 && *before_bytes + wanted_bytes <= peak_bytes)
        needless_ends_.insert(i);
      before_bytes.reset();
    }
    follow(entry);
  }
}

bool DeviceHistory::fails_next(std::uint64_t index) const {
  while (index < size_ && ((*this)[index].action == SnapshotAction::FreeCompleted ||
                           is_release((*this)[index].action)))
    ++index;
  return index < size_ && (*this)[index].action == SnapshotAction::Oom;
}

void DeviceHistory::find_late_frees() {
  std::vector<LateFree>& late = late_frees_;
  if (facts_.frees_at_once) return;
  std::unordered_map<std::uint64_t, std::size_t> waiting;  // address -> index into `late`
  for (std::uint64_t i = 0; i < size_; ++i) {
    const SnapshotEntry& entry = (*this)[i];
    if (entry.action == SnapshotAction::FreeRequested) {
      const bool at_once = i + 1 < size_ &&
                           (*this)[i + 1].action == SnapshotAction::FreeCompleted &&
                           (*this)[i + 1].address == entry.address;
      if (at_once) {
        if (fails_next(i + 2))
          late.push_back({.requested_index = i, .completed_index = i + 1, .certain = false});
        continue;
      }
      waiting[entry.address] = late.size();
      late.push_back({.requested_index = i, .completed_index = size_});
    } else if (entry.action == SnapshotAction::FreeCompleted) {
      const auto found = waiting.find(entry.address);
      if (found == waiting.end()) continue;
      late[found->second].completed_index = i;
      waiting.erase(found);
    }
  }
}

bool DeviceHistory::lies_outside() const {
  std::map<std::uint64_t, std::uint64_t> ends;  // of segments, by address
  for (const SnapshotSegment& segment : snapshot_.segments)
    ends[segment.address] = segment.address + segment.size_bytes;
  for (std::uint64_t i = 0; i < size_; ++i) {
    const SnapshotEntry& entry = (*this)[i];
    if (entry.action != SnapshotAction::Alloc) continue;
    const auto after = ends.upper_bound(entry.address);
    if (after == ends.begin() || std::prev(after)->second <= entry.address) return true;
  }
  return false;
}

std::vector<std::string> DeviceHistory::notes() const {
  std::vector<std::string> notes;
  const auto note = [&notes](std::string text) { notes.push_back(std::move(text)); };
  std::size_t with_history = 0;
  for (std::size_t i = 0; i < snapshot_.traces.size(); ++i)
    with_history += snapshot_.entry_count(i) > 0 ? 1 : 0;
  if (with_history > 1) {
    note(fmt::format(
        "{} devices have a history; this is device {}, {}", with_history, device_,
        snapshot_.failed_on(device_) ? "on which a request failed" : "which has the longest"));
  }
  note_host(snapshot_.host, &notes);
  if (facts_.round_count) {
    note(
        fmt::format("the history has {} entries, a round number: its ring was probably full, and "
                    "what came before is lost; record with a larger max_entries",
                    size_));
  }
  if (facts_.frees_at_once) {
    note(
        "the history has one of the two entries of a free (skip_actions), so each block is taken "
        "to be free at once");
  }
  if (facts_.alloc_count > 0 && !facts_.has_growth && size_ > 0 && lies_outside()) {
    note(
        "the history does not say which memory PyTorch took from the device (skip_actions), and "
        "blocks lie outside of the segments");
  }
  if (snapshot_.untiled_count > 0) {
    note(fmt::format("blocks do not fill {} of {} segments; the rest is taken to be free",
                     snapshot_.untiled_count, snapshot_.segments.size()));
  }
  const std::size_t earlier_count = earlier_blocks_.size();
  if (earlier_count > 0) {
    note(fmt::format("{} blocks were live before the history begins; they come first",
                     earlier_count));
  }
  if (facts_.oom_count > 0) {
    note(fmt::format("{} request{} failed while recording; each is asked and given back at once",
                     facts_.oom_count, facts_.oom_count == 1 ? "" : "s"));
  }
  if (facts_.late_free_count > 0) {
    note(
        fmt::format("{} blocks were given back while another stream used them, up to {} at a time; "
                    "the file does not say which stream",
                    facts_.late_free_count, format_bytes(facts_.late_bytes_peak)));
  }
  if (facts_.pool_alloc_count > 0) {
    note(
        fmt::format("{} of {} requests went to private pools (graphs, MemPool), and do so in the "
                    "trace{}; the file does not say when graphs were captured into pools that the "
                    "program made, nor replays, use_on_oom and no_split",
                    facts_.pool_alloc_count, facts_.alloc_count,
                    facts_.captured_count == 0
                        ? ""
                        : fmt::format(", {} of them in captures", facts_.captured_count)));
  }
  return notes;
}

}  // namespace allocmark
