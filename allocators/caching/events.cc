#include "allocators/caching/events.h"

#include <algorithm>
#include <cstddef>
#include <exception>

namespace allocmark::caching {

PendingEvents::~PendingEvents() {
  for (const Queue& queue : queues_) {
    for (const Entry& entry : queue.entries) spare_.push_back(entry.event);
  }
  for (const Event event : spare_) {
    try {
      driver_.destroy_event(event);
    } catch (const std::exception&) {
      // The allocator is going away and nobody can act on it.
    }
  }
}

void PendingEvents::insert(Block* block) {
  // A use leaves the list with its own event, so that a failure half-way forgets none and records
  // none twice.
  while (!block->stream_uses.empty()) {
    const Stream stream = block->stream_uses.front();
    const Event event = take_event();
    try {
      driver_.record_event(event, stream);
    } catch (...) {
      spare_.push_back(event);
      throw;
    }
    queue_of(stream).entries.push_back({event, block});
    ++count_;
    ++block->event_count;
    block->stream_uses.erase(block->stream_uses.begin());
  }
}

PendingEvents::Queue& PendingEvents::queue_of(Stream stream) {
  const auto found = std::ranges::find(queues_, stream, &Queue::stream);
  if (found != queues_.end()) return *found;
  queues_.push_back({stream, {}});
  return queues_.back();
}

Event PendingEvents::take_event() {
  if (spare_.empty()) return driver_.create_event();
  const Event event = spare_.back();
  spare_.pop_back();
  return event;
}

// The entry's block where that was its last event, else null.
Block* PendingEvents::take(Queue& queue, std::size_t index) {
  const Entry entry = queue.entries[index];
  queue.entries.erase(queue.entries.begin() + static_cast<std::ptrdiff_t>(index));
  spare_.push_back(entry.event);
  --count_;
  return --entry.block->event_count == 0 ? entry.block : nullptr;
}

}  // namespace allocmark::caching
