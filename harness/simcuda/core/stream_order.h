// Streams, events and kernels on a virtual clock: what has finished when, and what is ordered
// behind what. In: operations with the caller's virtual time. Out: finishing times, "has it
// finished", the pools' questions. A stream keeps only its unfinished work, so it does not grow
// with the number of operations. It models time; it checks nothing.
//
// Every call takes `now_ns`, the calling thread's virtual clock. The device's own clock is the
// latest time that any caller has shown it: what has finished by then is finished for everybody.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "harness/simcuda/core/order_clock.h"
#include "harness/simcuda/core/outcome.h"
#include "harness/simcuda/order/happens_before.h"

namespace simcuda {

using StreamId = std::uint32_t;
using EventId = std::uint64_t;   // never reused
using Position = std::uint64_t;  // operations of a stream are numbered from 1

inline constexpr StreamId kLegacyStream = 0;  // exists from the start

enum class StreamKind : std::uint8_t {
  Blocking,     // ordered with the legacy stream both ways
  NonBlocking,  // cudaStreamNonBlocking
};

// A time that is not known yet, because a closed gate is in the way.
inline constexpr std::uint64_t kUnknownNs = ~std::uint64_t{0};

// When the work that the host asked about ends.
struct Finish {
  Status status = Status::Ok;  // Ok, Blocked (a gate is closed) or InvalidHandle
  std::uint64_t finish_ns = 0;
};

class StreamOrder {
 public:
  explicit StreamOrder(std::uint64_t pending_launches_max);
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // ---- streams. Ids of destroyed streams are used again once release_stream says so (positions go
  // on counting).
  [[nodiscard]] StreamId create_stream(StreamKind kind);
  // The stream's work goes on. False where there is no such stream, or it is the legacy one.
  [[nodiscard]] bool destroy_stream(StreamId stream);
  [[nodiscard]] bool stream_exists(StreamId stream) const {
    return stream < streams_.size() && streams_[stream].state == State::Live;
  }
  [[nodiscard]] std::size_t stream_slot_count() const { return streams_.size(); }
  // Destroyed streams whose work has ended. Whoever refers to one has to forget it before
  // release_stream.
  [[nodiscard]] std::vector<StreamId> ended_streams(std::uint64_t now_ns);
  [[nodiscard]] bool any_destroyed() const { return !destroyed_streams_.empty(); }
  void release_stream(StreamId stream);

  // ---- work
  // A kernel; with more than the allowed launches pending the host waits: work.host_wait_until_ns.
  Outcome launch(StreamId stream, std::uint64_t duration_ns, std::uint64_t now_ns);
  // Copies and memsets: like a launch, but they put no fence (see seen()).
  Outcome copy(StreamId stream, std::uint64_t duration_ns, std::uint64_t now_ns);
  // A kernel that ends when `gate` opens; at once where it is open already. Gates never close
  // again, and each is remembered.
  Outcome launch_gated(StreamId stream, std::uint64_t gate, std::uint64_t now_ns);
  void open_gate(std::uint64_t gate, std::uint64_t now_ns);
  // An operation without duration (a stream-ordered free); returns its position.
  Position mark(StreamId stream, std::uint64_t now_ns);
  // Takes part in the legacy stream's ordering without an operation (a stream-ordered allocation).
  void join_legacy(StreamId stream, std::uint64_t now_ns);

  // ---- events
  [[nodiscard]] EventId create_event();
  [[nodiscard]] bool destroy_event(EventId event);
  Status record(EventId event, StreamId stream, std::uint64_t now_ns);
  // Nothing happens where the event was never recorded.
  Status wait(StreamId stream, EventId event, std::uint64_t now_ns);
  // The device-side wait of a stream for a position of another one.
  void wait_position(StreamId stream, StreamId other, Position position, std::uint64_t now_ns);
  // The same for a wait of the driver's own, which it does not take into account afterwards: the
  // stream comes later in time, and ordered_behind() stays as it was.
  void wait_unnoted(StreamId stream, StreamId other, Position position, std::uint64_t now_ns);
  // Ok, NotReady or InvalidHandle. An event that was never recorded is Ok.
  [[nodiscard]] Status query_event(EventId event, std::uint64_t now_ns);
  [[nodiscard]] Status query_stream(StreamId stream, std::uint64_t now_ns);
  // When the event happens; {Ok, 0} where never recorded. For cudaEventElapsedTime too.
  [[nodiscard]] Finish event_finish(EventId event) const;
  [[nodiscard]] bool event_recorded(EventId event) const;

  // ---- synchronisation: only says when; the caller lets its clock reach that time.
  [[nodiscard]] Finish stream_finish(StreamId stream, std::uint64_t now_ns);
  [[nodiscard]] Finish device_finish(std::uint64_t now_ns);

  // ---- what memory pools ask
  [[nodiscard]] Position position(StreamId stream) const { return streams_[stream].position; }
  // How far the device has come in `stream`.
  [[nodiscard]] Position finished(StreamId stream, std::uint64_t now_ns);
  // What the host can tell without waiting, given the last position the asker cares about: that one
  // if the device has passed it, else the operation before the latest kernel launch whose
  // predecessors have all finished.
  [[nodiscard]] Position seen(StreamId stream, Position last_cared, std::uint64_t now_ns);
  // The latest position of `other` that all further work of `stream` comes after (through events,
  // transitively).
  [[nodiscard]] Position ordered_behind(StreamId stream, StreamId other) const;
  [[nodiscard]] Position event_ordered_behind(EventId event, StreamId other) const;

  // ---- the order check: is told what each operation is ordered behind. Null where nobody checks;
  // the caller keeps it alive until the next call. It changes no answer of this class.
  void follow(order::HappensBefore* followed);
  [[nodiscard]] order::HappensBefore* followed() const { return followed_; }

  // Unfinished pieces of work that are remembered for all streams; bounded, for tests.
  [[nodiscard]] std::size_t remembered_count() const;

 private:
  enum class State : std::uint8_t { Live, Destroyed, Free };
  // Positions up to `last` (from the segment before on) end at finish_ns.
  struct Segment {
    Position last = 0;
    std::uint64_t finish_ns = 0;
    bool fence_after = false;  // a kernel launch follows
  };
  enum class ItemKind : std::uint8_t { Kernel, Copy, Gate, Wait, Record };
  // An operation behind a closed gate. Later operations without duration only raise `last`.
  struct Item {
    ItemKind kind = ItemKind::Kernel;
    StreamId other = 0;  // Wait: for this stream's position `value`
    Position last = 0;
    std::uint64_t value = 0;          // duration, gate, position or event, by kind
    std::uint64_t record_number = 0;  // Record: void if the event was recorded again since
    std::uint64_t issued_ns = 0;
  };
  struct Stream {
    State state = State::Free;
    StreamKind kind = StreamKind::NonBlocking;
    Position position = 0;
    Position finished = 0;
    Position fence_seen = 0;
    std::uint64_t end_ns = 0;  // when all known work ends; kUnknownNs behind a closed gate
    std::deque<Segment> pending;
    std::deque<Item> items;               // not empty exactly when end_ns is unknown
    std::uint64_t resolved_end_ns = 0;    // end of what comes before items
    std::uint64_t joined_operations = 0;  // legacy stream: blocking_operations_ when it last joined
    OrderClock clock;
  };
  struct Event {
    bool recorded = false;
    StreamId stream = 0;
    std::uint32_t generation = 0;
    bool live = false;
    Position position = 0;
    std::uint64_t finish_ns = 0;
    std::uint64_t record_number = 0;
    OrderClock clock;
  };

  void see(std::uint64_t now_ns) { clock_ns_ = now_ns > clock_ns_ ? now_ns : clock_ns_; }
  void advance(Stream& stream);
  void append(Stream& stream, std::uint64_t finish_ns);
  void append_until(Stream& stream, Position last, std::uint64_t finish_ns);
  void begin_operation(StreamId stream);
  Outcome enqueue(StreamId stream, Item item);
  void wait_for(Stream& stream, StreamId other, Position position, std::uint64_t finish_ns);
  void push_item(Stream& stream, Item item);
  [[nodiscard]] std::uint64_t finish_of(const Stream& stream, Position position) const;
  bool resolve_front(Stream& stream);
  void finish_record(const Item& item, std::uint64_t end_ns);
  void set_fence(Stream& stream);
  [[nodiscard]] Status query_work(const Stream& stream) const;
  [[nodiscard]] Event* find_event(EventId event);
  [[nodiscard]] const Event* find_event(EventId event) const;

  order::HappensBefore* followed_ = nullptr;
  std::uint64_t pending_launches_max_;
  std::uint64_t clock_ns_ = 0;
  std::uint64_t blocking_operations_ =
      0;  // on blocking streams, so that the legacy stream joins only when it must
  std::vector<Stream> streams_;
  std::vector<StreamId> blocking_streams_;
  std::vector<StreamId> destroyed_streams_;
  std::vector<StreamId> free_streams_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> free_events_;
  std::map<std::uint64_t, std::uint64_t> open_gates_;  // gate -> when it opened
};

}  // namespace simcuda
