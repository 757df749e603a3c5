#include "harness/core/check/pool_watch.h"

#include <algorithm>

namespace allocmark {

std::map<std::uint64_t, PoolBytes> bytes_by_pool(const Backend& backend) {
  std::map<std::uint64_t, PoolBytes> pools;
  for (const MemorySegment& segment : backend.segments()) {
    PoolBytes& bytes = pools[segment.pool];
    bytes.reserved_bytes += segment.size_bytes;
    for (const MemoryBlock& block : segment.blocks)
      bytes.live_bytes += block.state == MemoryBlockState::Free ? 0 : block.size_bytes;
  }
  return pools;
}

PoolWatch::Look PoolWatch::look() const {
  Look look;
  for (const auto& [pool, bytes] : bytes_by_pool(*backend_)) {
    look.reserved_bytes += bytes.reserved_bytes;
    if (pool == 0 || !use_counts_.contains(pool)) continue;
    look.by_pool[pool] = bytes;
    look.pools.reserved_bytes += bytes.reserved_bytes;
    look.pools.live_bytes += bytes.live_bytes;
  }
  return look;
}

void PoolWatch::note(const Look& look) {
  reserved_bytes_peak_ = std::max(reserved_bytes_peak_, look.pools.reserved_bytes);
  if (look.pools.stranded_bytes() > most_stranded_.pools.stranded_bytes()) most_stranded_ = look;
}

void PoolWatch::end_return() {
  if (open_ && open_->bytes() > most_returned_.bytes()) most_returned_ = std::move(*open_);
  open_.reset();
}

void PoolWatch::before(const Event& event) {
  if (event.kind == EventKind::Alloc) return end_return();
  if (event.kind == EventKind::PoolBegin) note(look());
  if (event.kind != EventKind::Trim) return;
  Look now = look();
  note(now);
  if (!open_) open_ = Return{.before = std::move(now)};
}

void PoolWatch::after(const Event& event) {
  switch (event.kind) {
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
      ++use_counts_[event.id];
      return;
    case EventKind::PoolRelease:
      if (--use_counts_[event.id] == 0) use_counts_.erase(event.id);
      return;
    case EventKind::Trim:
      if (open_) open_->after = look();
      return;
    case EventKind::PoolEnd:
      return note(look());
    case EventKind::CaptureBegin:
      captures_[event.stream] = false;
      ++capture_count_;
      return;
    case EventKind::CaptureEnd:
      failed_capture_count_ += captures_[event.stream] ? 1 : 0;
      captures_.erase(event.stream);
      return;
    default:
      return;
  }
}

void PoolWatch::note_failure(std::uint32_t stream) {
  const auto found = captures_.find(stream);
  if (found != captures_.end()) found->second = true;
}

std::vector<std::pair<std::string, std::int64_t>> PoolWatch::counters() {
  note(look());
  end_return();
  std::vector<std::pair<std::string, std::int64_t>> counters;
  const auto add = [&counters](const std::string& name, std::uint64_t value) {
    counters.emplace_back("private_pools." + name, static_cast<std::int64_t>(value));
  };
  add("reserved_bytes_peak", reserved_bytes_peak_);
  add("stranded_bytes_peak", most_stranded_.pools.stranded_bytes());
  add("stranded_pool_count", most_stranded_.by_pool.size());
  for (const auto& [pool, held] : most_stranded_.by_pool)
    add("stranded_bytes_of_pool" + std::to_string(pool), held.stranded_bytes());
  add("capture_count", static_cast<std::uint64_t>(capture_count_));
  add("capture_failed_count", static_cast<std::uint64_t>(failed_capture_count_));
  if (most_returned_.bytes() == 0) return counters;
  add("given_back_bytes_max", most_returned_.bytes());
  add("kept_bytes", most_returned_.after.reserved_bytes);
  add("kept_stranded_bytes", most_returned_.after.pools.stranded_bytes());
  return counters;
}

}  // namespace allocmark
