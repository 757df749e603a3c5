// The part of StreamOrder that handles events.
#include <algorithm>

#include "harness/simcuda/core/stream_order.h"

namespace simcuda {
namespace {

constexpr unsigned kIndexBits = 32;

}  // namespace

EventId StreamOrder::create_event() {
  std::uint32_t index = 0;
  if (free_events_.empty()) {
    index = static_cast<std::uint32_t>(events_.size());
    events_.emplace_back();
  } else {
    index = free_events_.back();
    free_events_.pop_back();
  }
  Event& event = events_[index];
  event.live = true;
  ++event.generation;
  return (static_cast<EventId>(event.generation) << kIndexBits) | index;
}

bool StreamOrder::destroy_event(EventId event) {
  Event* found = find_event(event);
  if (found == nullptr) return false;
  const std::uint32_t generation = found->generation;
  const std::uint64_t record_number = found->record_number;
  *found = Event{};
  found->generation = generation;
  found->record_number = record_number + 1;  // voids a record that is still held up
  free_events_.push_back(static_cast<std::uint32_t>(event));
  if (followed_ != nullptr) followed_->forget(event);
  return true;
}

Status StreamOrder::record(EventId event, StreamId stream, std::uint64_t now_ns) {
  Event* found = find_event(event);
  if (found == nullptr || !stream_exists(stream)) return Status::InvalidHandle;
  see(now_ns);
  begin_operation(stream);
  if (followed_ != nullptr) followed_->record(event, stream);
  Stream& at = streams_[stream];
  found->recorded = true;
  found->stream = stream;
  found->clock = at.clock;
  ++found->record_number;
  if (!at.items.empty()) {
    ++at.position;
    push_item(at, {.kind = ItemKind::Record,
                   .value = event,
                   .record_number = found->record_number,
                   .issued_ns = now_ns});
    found->finish_ns = kUnknownNs;
  } else {
    found->finish_ns = std::max(at.end_ns, now_ns);
  }
  found->position = at.position;
  return Status::Ok;
}

// A record behind a gate has its turn, `end_ns` being the end of all before it.
void StreamOrder::finish_record(const Item& item, std::uint64_t end_ns) {
  Event* found = find_event(item.value);
  if (found != nullptr && found->record_number == item.record_number) {
    found->finish_ns = std::max(end_ns, item.issued_ns);
  }
}

Status StreamOrder::wait(StreamId stream, EventId event, std::uint64_t now_ns) {
  const Event* found = find_event(event);
  if (found == nullptr || !stream_exists(stream)) return Status::InvalidHandle;
  see(now_ns);
  begin_operation(stream);
  if (followed_ != nullptr) followed_->wait(stream, event);
  if (!found->recorded || found->stream == stream) return Status::Ok;
  Stream& at = streams_[stream];
  if (at.clock.position_of(found->stream) >= found->position) {
    return Status::Ok;  // The stream comes after it already.
  }
  at.clock.raise(found->stream, found->position);
  at.clock.merge(found->clock);
  wait_for(at, found->stream, found->position, found->finish_ns);
  return Status::Ok;
}

Status StreamOrder::query_event(EventId event, std::uint64_t now_ns) {
  const Event* found = find_event(event);
  if (found == nullptr) return Status::InvalidHandle;
  see(now_ns);
  if (found->finish_ns > clock_ns_) return Status::NotReady;
  if (followed_ != nullptr) followed_->host_saw(event);
  return Status::Ok;
}

Finish StreamOrder::event_finish(EventId event) const {
  const Event* found = find_event(event);
  if (found == nullptr) return {.status = Status::InvalidHandle};
  if (found->finish_ns == kUnknownNs) return {.status = Status::Blocked};
  return {.finish_ns = found->finish_ns};
}

bool StreamOrder::event_recorded(EventId event) const {
  const Event* found = find_event(event);
  return found != nullptr && found->recorded;
}

Position StreamOrder::event_ordered_behind(EventId event, StreamId other) const {
  const Event* found = find_event(event);
  if (found == nullptr || !found->recorded) return 0;
  return found->stream == other ? found->position : found->clock.position_of(other);
}

const StreamOrder::Event* StreamOrder::find_event(EventId event) const {
  const auto index = static_cast<std::uint32_t>(event);
  if (index >= events_.size() || !events_[index].live ||
      events_[index].generation != event >> kIndexBits) {
    return nullptr;
  }
  return &events_[index];
}

StreamOrder::Event* StreamOrder::find_event(EventId event) {
  return const_cast<Event*>(static_cast<const StreamOrder*>(this)->find_event(event));
}

}  // namespace simcuda
