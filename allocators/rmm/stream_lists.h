// Lists of free blocks, one for each stream, as RMM's stream-ordered resources keep them. Requests
// flow in, addresses flow out.
//
// A request takes of its own list; then of another one, whose stream it waits for. If no list has a
// block, the other lists join its own, one after the other, until one fits. At last the caller's
// `grow` puts memory into it.
//
// Until 26.06 the event of a list stays as it was when others join it, so that a third stream that
// takes of it does not wait for them (rmm 2489). Since 26.10 the event is recorded anew.
//
// A List has fits(size_bytes), take(size_bytes), which gives an address or nothing, and
// join(List&&).
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "allocators/rmm/resource.h"

namespace allocmark::rmm {

template <typename List>
class StreamLists {
 public:
  struct One {
    caching::Stream stream = 0;
    caching::Event event = 0;  // after the last free
    List free{};
    bool is_listed = false;  // has a list, if an empty one
  };

  StreamLists(const Site& site, bool records_joins) : site_(site), records_joins_(records_joins) {}
  StreamLists(const StreamLists&) = delete;
  StreamLists& operator=(const StreamLists&) = delete;
  ~StreamLists() {
    try {
      for (const One& one : all_) site_.driver.destroy_event(one.event);
    } catch (const std::exception&) {
      // The context is gone, and the events with it.
    }
  }

  // A stream's event is made at its first call.
  [[nodiscard]] One& of(caching::Stream stream) {
    const auto found = std::ranges::find(all_, stream, &One::stream);
    if (found != all_.end()) return *found;
    all_.push_back({.stream = stream, .event = site_.driver.create_event()});
    return all_.back();
  }
  // Null where the stream made no call yet.
  [[nodiscard]] const List* list_of(caching::Stream stream) const {
    const auto found = std::ranges::find(all_, stream, &One::stream);
    return found == all_.end() ? nullptr : &found->free;
  }
  // In the order of their first call.
  [[nodiscard]] std::vector<One>& all() { return all_; }

  // `grow` takes a List& and says whether it put memory into it.
  template <typename Grow>
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size_bytes, caching::Stream stream,
                                                  Grow grow) {
    One& own = of(stream);
    std::optional<std::uint64_t> address = own.free.take(size_bytes);
    own.is_listed = true;
    if (!address) address = take_of_others(size_bytes, &own);
    if (!address) address = join_others(size_bytes, &own);
    if (address) return address;
    return grow(own.free) ? own.free.take(size_bytes) : std::nullopt;
  }

  // The list that a freed block goes to; its event is recorded.
  [[nodiscard]] List& list_for_free(caching::Stream stream) {
    One& own = of(stream);
    site_.driver.record_event(own.event, stream);
    own.is_listed = true;
    return own.free;
  }

 private:
  void wait(const One& own, const One& other) {
    site_.driver.make_stream_wait(own.stream, other.event);
    ++site_.counters.stream_wait_count;
  }

  [[nodiscard]] std::optional<std::uint64_t> take_of_others(std::uint64_t size_bytes, One* own) {
    for (One& other : all_) {
      if (&other == own || !other.is_listed) continue;
      if (!other.free.fits(size_bytes)) continue;
      wait(*own, other);
      return other.free.take(size_bytes);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint64_t> join_others(std::uint64_t size_bytes, One* own) {
    for (One& other : all_) {
      if (&other == own || !other.is_listed) continue;
      wait(*own, other);
      own->free.join(std::exchange(other.free, {}));
      other.is_listed = false;
      if (records_joins_) site_.driver.record_event(own->event, own->stream);
      if (const auto address = own->free.take(size_bytes)) return address;
    }
    return std::nullopt;
  }

  const Site site_;
  const bool records_joins_;
  std::vector<One> all_;
};

}  // namespace allocmark::rmm
