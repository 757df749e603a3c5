// The part of StreamOrder that runs work: kernels, gates and what is held up behind a closed gate.
#include <algorithm>

#include "harness/simcuda/core/stream_order.h"

namespace simcuda {
namespace {

// 36 years; keeps sums from overflowing.
constexpr std::uint64_t kDurationNsMax = std::uint64_t{1} << 60;

}  // namespace

Outcome StreamOrder::launch(StreamId stream, std::uint64_t duration_ns, std::uint64_t now_ns) {
  return enqueue(stream, {.kind = ItemKind::Kernel,
                          .value = std::min(duration_ns, kDurationNsMax),
                          .issued_ns = now_ns});
}

Outcome StreamOrder::copy(StreamId stream, std::uint64_t duration_ns, std::uint64_t now_ns) {
  return enqueue(stream, {.kind = ItemKind::Copy,
                          .value = std::min(duration_ns, kDurationNsMax),
                          .issued_ns = now_ns});
}

Outcome StreamOrder::launch_gated(StreamId stream, std::uint64_t gate, std::uint64_t now_ns) {
  return enqueue(stream, {.kind = ItemKind::Gate, .value = gate, .issued_ns = now_ns});
}

Outcome StreamOrder::enqueue(StreamId stream, Item item) {
  if (!stream_exists(stream)) return {.status = Status::InvalidHandle};
  Outcome outcome;
  see(item.issued_ns);
  begin_operation(stream);
  Stream& at = streams_[stream];
  advance(at);
  const std::size_t pending_count = at.pending.size() + at.items.size();
  if (pending_count >= pending_launches_max_) {
    if (!at.items.empty()) return {.status = Status::Blocked};
    // The launch queue is full: the host waits until the oldest ones have ended.
    item.issued_ns = at.pending[pending_count - pending_launches_max_].finish_ns;
    outcome.work.host_wait_until_ns = item.issued_ns;
    see(item.issued_ns);
    advance(at);
  }
  ++at.position;
  if (at.items.empty() && item.kind != ItemKind::Gate) {
    // The usual case: nothing is held up, so its end is known now.
    if (item.kind == ItemKind::Kernel) {
      set_fence(at);
    }
    at.end_ns = std::max(at.end_ns, item.issued_ns) + item.value;
    append(at, at.end_ns);
    return outcome;
  }
  push_item(at, item);
  while (resolve_front(at)) {
  }
  return outcome;
}

void StreamOrder::push_item(Stream& stream, Item item) {
  if (stream.items.empty()) {
    stream.resolved_end_ns = stream.end_ns;
    stream.end_ns = kUnknownNs;
  }
  item.last = stream.position;
  stream.items.push_back(item);
}

void StreamOrder::open_gate(std::uint64_t gate, std::uint64_t now_ns) {
  see(now_ns);
  open_gates_.emplace(gate, now_ns);
  for (bool progress = true; progress;) {
    progress = false;
    for (Stream& stream : streams_) {
      while (resolve_front(stream)) {
        progress = true;
      }
    }
  }
}

// Runs the first held-up operation of `stream`; false where there is none or it cannot run yet.
bool StreamOrder::resolve_front(Stream& stream) {
  if (stream.items.empty()) return false;
  const Item& item = stream.items.front();
  std::uint64_t finish_ns = stream.resolved_end_ns;
  bool fence = false;
  switch (item.kind) {
    case ItemKind::Kernel:
      fence = true;
      [[fallthrough]];
    case ItemKind::Copy:
      finish_ns = std::max(finish_ns, item.issued_ns) + item.value;
      break;
    case ItemKind::Gate: {
      const auto gate = open_gates_.find(item.value);
      if (gate == open_gates_.end()) {
        // The launch's fence counts from the launch on.
        advance(stream);
        set_fence(stream);
        return false;
      }
      fence = true;
      finish_ns = std::max({finish_ns, item.issued_ns, gate->second});
      break;
    }
    case ItemKind::Wait: {
      const std::uint64_t other_ns = finish_of(streams_[item.other], item.value);
      if (other_ns == kUnknownNs) return false;
      finish_ns = std::max(finish_ns, other_ns);
      break;
    }
    case ItemKind::Record:
      finish_record(item, finish_ns);
      break;
  }
  if (fence) {
    advance(stream);
    set_fence(stream);
  }
  append_until(stream, item.last, finish_ns);
  stream.resolved_end_ns = finish_ns;
  stream.items.pop_front();
  if (stream.items.empty()) {
    stream.end_ns = finish_ns;
  }
  return true;
}

// A kernel launch comes next: from the end of what is before it on, the host can tell that it has
// ended.
void StreamOrder::set_fence(Stream& stream) {
  if (stream.pending.empty()) {
    stream.fence_seen = stream.finished;
  } else {
    stream.pending.back().fence_after = true;
  }
}

}  // namespace simcuda
