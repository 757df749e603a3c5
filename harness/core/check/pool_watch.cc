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

void PoolWatch::tell(const Look& look) {
  if (timeline_ == nullptr) return;
  timeline_->add_pools({.event_index = event_index_,
                        .reserved_bytes = look.pools.reserved_bytes,
                        .live_bytes = look.pools.live_bytes});
}

void PoolWatch::note(const Look& look) {
  tell(look);
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
  note_step(event);
  if (timeline_ != nullptr && timeline_->ends_span(event_index_)) tell(look());
  ++event_index_;
}

void PoolWatch::note_step(const Event& event) {
  switch (event.kind) {
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
      ++use_counts_[event.id];
      return;
    case EventKind::PoolRelease:
      if (--use_counts_[event.id] == 0) use_counts_.erase(event.id);
      return;
    case EventKind::Trim:
      if (open_) {
        open_->after = look();
        tell(open_->after);
      }
      return;
    case EventKind::PoolEnd:
      return note(look());
    case EventKind::CaptureBegin:
      captures_[event.stream] = {.begin_event_index = event_index_};
      ++capture_count_;
      return;
    case EventKind::CaptureEnd:
      return end_capture(event.stream);
    default:
      return;
  }
}

void PoolWatch::end_capture(std::uint32_t stream) {
  const Capture capture = captures_[stream];
  failed_capture_count_ += capture.failed ? 1 : 0;
  captures_.erase(stream);
  if (timeline_ == nullptr) return;
  timeline_->add_capture({.begin_event_index = capture.begin_event_index,
                          .end_event_index = event_index_,
                          .failed = capture.failed});
}

void PoolWatch::note_failure(std::uint32_t stream) {
  const auto found = captures_.find(stream);
  if (found != captures_.end()) found->second.failed = true;
}

std::vector<std::pair<std::string, std::int64_t>> PoolWatch::counters() {
  note(look());
  end_return();
  // Of a pass that ended within them.
  while (!captures_.empty()) end_capture(captures_.begin()->first);
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
