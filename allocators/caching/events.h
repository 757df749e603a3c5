// Blocks that were given back while other streams still used them: each waits for one event per
// stream. Mechanism only: what becomes of a block whose last event has passed is the caller's
// affair.
#pragma once

#include <deque>
#include <vector>

#include "allocators/caching/block.h"
#include "allocators/caching/pool.h"

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

  // Remembers a block whose uses are not to become events yet (private_pools.cc).
  void defer(Block* block) {
    deferred_.push_back(block);
    ++count_;
  }
  // The deferred blocks that `chosen` is true for, in the order in which they came; they are
  // deferred no more.
  template <typename Predicate>
  [[nodiscard]] std::vector<Block*> take_deferred(Predicate chosen) {
    std::vector<Block*> taken;
    std::erase_if(deferred_, [&](Block* block) {
      if (!chosen(*block)) return false;
      taken.push_back(block);
      return true;
    });
    count_ -= taken.size();
    return taken;
  }

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

  // The same for the blocks of one private pool.
  template <typename Action>
  void wait_and_take_all_of(const PrivatePool& pool, Action action) {
    for (Queue& queue : queues_) {
      for (std::size_t i = 0; i < queue.entries.size();) {
        if (queue.entries[i].block->home->pool->owner != &pool) {
          ++i;
          continue;
        }
        driver_.wait_for_event(queue.entries[i].event);
        if (Block* block = take(queue, i)) action(block);
      }
    }
  }

  // Every waiting block, once per event; deferred ones once.
  template <typename Action>
  void for_each(Action action) const {
    for (Block* block : deferred_) action(block);
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
  [[nodiscard]] Block* pop(Queue& queue) { return take(queue, 0); }
  [[nodiscard]] Block* take(Queue& queue, std::size_t index);

  Driver& driver_;
  std::vector<Queue> queues_;  // by first use
  std::vector<Event> spare_;   // reused last in, first out; never destroyed before the end
  std::vector<Block*> deferred_;
  std::size_t count_ = 0;  // of events and deferred blocks
};

}  // namespace allocmark::caching
