#include "harness/simcuda/core/stream_order.h"

#include <algorithm>

#include "base/assert.h"

namespace simcuda {

StreamOrder::StreamOrder(std::uint64_t pending_launches_max)
    : pending_launches_max_(pending_launches_max), streams_(1) {
  streams_[kLegacyStream].state = State::Live;
}

StreamId StreamOrder::create_stream(StreamKind kind) {
  StreamId stream = 0;
  if (free_streams_.empty()) {
    stream = static_cast<StreamId>(streams_.size());
    streams_.emplace_back();
  } else {
    stream = free_streams_.back();
    free_streams_.pop_back();
  }
  streams_[stream].state = State::Live;
  streams_[stream].kind = kind;
  if (kind == StreamKind::Blocking) {
    blocking_streams_.push_back(stream);
  }
  if (followed_ != nullptr) followed_->add_stream(stream, kind == StreamKind::Blocking);
  return stream;
}

void StreamOrder::follow(order::HappensBefore* followed) {
  followed_ = followed;
  if (followed == nullptr) return;
  for (std::size_t i = 1; i < streams_.size(); ++i) {
    if (streams_[i].state == State::Free) continue;
    followed->add_stream(static_cast<StreamId>(i), streams_[i].kind == StreamKind::Blocking);
  }
}

bool StreamOrder::destroy_stream(StreamId stream) {
  if (stream == kLegacyStream || !stream_exists(stream)) return false;
  streams_[stream].state = State::Destroyed;
  destroyed_streams_.push_back(stream);
  return true;
}

std::vector<StreamId> StreamOrder::ended_streams(std::uint64_t now_ns) {
  see(now_ns);
  std::vector<StreamId> ended;
  for (const StreamId stream : destroyed_streams_) {
    if (query_work(streams_[stream]) == Status::Ok) {
      ended.push_back(stream);
    }
  }
  return ended;
}

void StreamOrder::release_stream(StreamId stream) {
  ALLOCMARK_ASSERT(streams_[stream].state == State::Destroyed);
  streams_[stream].state = State::Free;
  streams_[stream].clock = OrderClock{};
  if (followed_ != nullptr) followed_->remove_stream(stream);
  std::erase(destroyed_streams_, stream);
  std::erase(blocking_streams_, stream);
  free_streams_.push_back(stream);
}

Position StreamOrder::mark(StreamId stream, std::uint64_t now_ns) {
  see(now_ns);
  begin_operation(stream);
  Stream& at = streams_[stream];
  ++at.position;
  if (!at.items.empty()) {
    at.items.back().last = at.position;
  } else {
    advance(at);
    append(at, at.end_ns);
  }
  return at.position;
}

void StreamOrder::join_legacy(StreamId stream, std::uint64_t now_ns) {
  see(now_ns);
  begin_operation(stream);
}

Status StreamOrder::query_stream(StreamId stream, std::uint64_t now_ns) {
  if (!stream_exists(stream)) return Status::InvalidHandle;
  see(now_ns);
  if (stream == kLegacyStream) {
    begin_operation(stream);
  }
  const Status status = query_work(streams_[stream]);
  if (followed_ != nullptr && status == Status::Ok) followed_->host_saw_stream(stream);
  return status;
}

Status StreamOrder::query_work(const Stream& stream) const {
  return stream.end_ns <= clock_ns_ ? Status::Ok : Status::NotReady;
}

Finish StreamOrder::stream_finish(StreamId stream, std::uint64_t now_ns) {
  if (!stream_exists(stream)) return {.status = Status::InvalidHandle};
  see(now_ns);
  if (stream == kLegacyStream) {
    begin_operation(stream);
  }
  const std::uint64_t end_ns = streams_[stream].end_ns;
  if (end_ns == kUnknownNs) return {.status = Status::Blocked};
  return {.finish_ns = end_ns};
}

Finish StreamOrder::device_finish(std::uint64_t now_ns) {
  see(now_ns);
  Finish finish;
  for (const Stream& stream : streams_) {
    if (stream.end_ns == kUnknownNs) return {.status = Status::Blocked};
    finish.finish_ns = std::max(finish.finish_ns, stream.end_ns);
  }
  return finish;
}

Position StreamOrder::finished(StreamId stream, std::uint64_t now_ns) {
  see(now_ns);
  advance(streams_[stream]);
  return streams_[stream].finished;
}

Position StreamOrder::seen(StreamId stream, Position last_cared, std::uint64_t now_ns) {
  if (finished(stream, now_ns) >= last_cared) return last_cared;
  return streams_[stream].fence_seen;
}

Position StreamOrder::ordered_behind(StreamId stream, StreamId other) const {
  if (stream == other) return streams_[stream].position;
  return streams_[stream].clock.position_of(other);
}

std::size_t StreamOrder::remembered_count() const {
  std::size_t count = 0;
  for (const Stream& stream : streams_) {
    count += stream.pending.size() + stream.items.size();
  }
  return count;
}

// Forgets what has finished by now.
void StreamOrder::advance(Stream& stream) {
  while (!stream.pending.empty() && stream.pending.front().finish_ns <= clock_ns_) {
    stream.finished = stream.pending.front().last;
    if (stream.pending.front().fence_after) {
      stream.fence_seen = stream.finished;
    }
    stream.pending.pop_front();
  }
}

// The operations up to the stream's position end at finish_ns, which is no earlier than all before.
void StreamOrder::append(Stream& stream, std::uint64_t finish_ns) {
  append_until(stream, stream.position, finish_ns);
}

void StreamOrder::append_until(Stream& stream, Position last, std::uint64_t finish_ns) {
  if (stream.pending.empty() && finish_ns <= clock_ns_) {
    stream.finished = last;
    return;
  }
  if (!stream.pending.empty()) {
    Segment& back = stream.pending.back();
    if (back.finish_ns == finish_ns && !back.fence_after) {
      back.last = last;
      return;
    }
  }
  stream.pending.push_back({.last = last, .finish_ns = finish_ns});
}

// What the legacy stream and the blocking streams wait for before any operation of theirs.
void StreamOrder::begin_operation(StreamId stream) {
  if (followed_ != nullptr) followed_->begin(stream);
  if (blocking_streams_.empty()) return;
  Stream& at = streams_[stream];
  if (stream != kLegacyStream) {
    if (at.kind == StreamKind::Blocking && at.state == State::Live) {
      ++blocking_operations_;
      const Position legacy = streams_[kLegacyStream].position;
      if (at.clock.position_of(kLegacyStream) < legacy) {
        wait_position(stream, kLegacyStream, legacy, clock_ns_);
      }
    }
    return;
  }
  if (at.joined_operations == blocking_operations_) return;
  at.joined_operations = blocking_operations_;
  for (const StreamId other : blocking_streams_) {
    if (at.clock.position_of(other) < streams_[other].position) {
      wait_position(kLegacyStream, other, streams_[other].position, clock_ns_);
    }
  }
}

void StreamOrder::wait_position(StreamId stream, StreamId other, Position position,
                                std::uint64_t now_ns) {
  see(now_ns);
  Stream& at = streams_[stream];
  const Stream& before = streams_[other];
  at.clock.raise(other, position);
  if (position == before.position) {
    at.clock.merge(before.clock);
  }
  wait_for(at, other, position, finish_of(before, position));
}

void StreamOrder::wait_unnoted(StreamId stream, StreamId other, Position position,
                               std::uint64_t now_ns) {
  see(now_ns);
  wait_for(streams_[stream], other, position, finish_of(streams_[other], position));
}

// Work of `stream` comes after `position` of `other`, which ends at finish_ns (may be unknown).
void StreamOrder::wait_for(Stream& stream, StreamId other, Position position,
                           std::uint64_t finish_ns) {
  ++stream.position;
  if (finish_ns == kUnknownNs || (!stream.items.empty() && finish_ns > clock_ns_)) {
    push_item(stream, {.kind = ItemKind::Wait, .other = other, .value = position});
    return;
  }
  if (!stream.items.empty()) {
    stream.items.back().last = stream.position;
    return;
  }
  advance(stream);
  stream.end_ns = std::max(stream.end_ns, finish_ns);
  append(stream, stream.end_ns);
}

std::uint64_t StreamOrder::finish_of(const Stream& stream, Position position) const {
  if (position <= stream.finished) return 0;
  const auto segment =
      std::lower_bound(stream.pending.begin(), stream.pending.end(), position,
                       [](const Segment& at, Position wanted) { return at.last < wanted; });
  if (segment != stream.pending.end()) return segment->finish_ns;
  return stream.items.empty() ? stream.end_ns : kUnknownNs;
}

}  // namespace simcuda
