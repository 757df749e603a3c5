// Blocks that were given back while other streams still used them: each waits for one event per
// stream. Mechanism only: what becomes of a block whose last event has passed is the caller's
// affair.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "allocators/caching/block.h"

namespace allocmark::caching {

class PendingEvents {
 public:
  explicit PendingEvents(Driver& driver) : driver_(driver) {}
  // Destroys the events, passed or not.
  ~PendingEvents();
  PendingEvents(const PendingEvents&) = delete;
  PendingEvents& operator=(const PendingEvents&) = delete;

  [[nodiscard]] bool empty() const { return count_ == 0; }

  // Records one event on each stream that uses the block; the uses become events.
  void insert(Block* block);

  // Calls action(block) for every block whose last event has passed, looking at each stream's
  // events in order and no further than the first that has not.
  template <typename Action>
  void take_done(Action action) {
    for (Queue& queue : queues_) {
      while (!queue.entries.empty() && driver_.event_done(queue.entries.front().event)) {
        if (Block* block = pop(queue)) action(block);
      }
    }
  }

  // The same for every block there is, waiting for each event.
  template <typename Action>
  void wait_and_take_all(Action action) {
    for (Queue& queue : queues_) {
      while (!queue.entries.empty()) {
        driver_.wait_for_event(queue.entries.front().event);
        if (Block* block = pop(queue)) action(block);
      }
    }
  }

  // Every waiting block, once per event.
  template <typename Action>
  void for_each(Action action) const {
    for (const Queue& queue : queues_) {
      for (const Entry& entry : queue.entries) action(entry.block);
    }
  }

 private:
  struct Entry {
    Event event = 0;
    Block* block = nullptr;
  };
  struct Queue {
    Stream stream = 0;
    std::deque<Entry> entries;
  };

  [[nodiscard]] Queue& queue_of(Stream stream);
  [[nodiscard]] Event take_event();
  [[nodiscard]] Block* pop(Queue& queue);

  Driver& driver_;
  std::vector<Queue> queues_;  // by first use
  std::vector<Event> spare_;   // reused last in, first out; never destroyed before the end
  std::size_t count_ = 0;
};

}  // namespace allocmark::caching
