// What comes after what on one simulated GPU, by CUDA's rules alone: streams, events, waits,
// synchronisation, the legacy default stream, what the host has been told. Operations flow in as
// they are carried out; answers to "does this come after that" flow out. Virtual time plays no
// part: work that merely ended earlier is not ordered. All threads of the host count as one, since
// nobody sees their locks: what one of them knows, all know. Not thread safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "harness/simcuda/order/vector_clock.h"

namespace simcuda::order {

using Event = std::uint64_t;   // the core's EventId: never reused
using Moment = std::uint64_t;  // numbers the operations of the device; rises

class HappensBefore {
 public:
  // Streams that nobody introduced take no part in the legacy stream's rules.
  void add_stream(Stream stream, bool is_blocking);
  void remove_stream(Stream stream);

  // An operation of the stream begins: it comes after what the host knows and, by the legacy
  // stream's rules, after other streams' work.
  void begin(Stream stream);
  void record(Event event, Stream stream);
  void wait(Stream stream, Event event);
  void forget(Event event) { events_.erase(event); }
  // The host has learnt that this has ended: by a query or by waiting.
  void host_saw(Event event);
  void host_saw_stream(Stream stream);
  void host_saw_device();

  // Where the stream stands now, for ordered().
  [[nodiscard]] Epoch epoch(Stream stream);
  // Whether whatever `stream` does next comes after all that `other` did up to `epoch`.
  [[nodiscard]] bool ordered(Stream other, Epoch epoch, Stream stream) const;
  // All that the stream's next operation comes after, itself included.
  [[nodiscard]] VectorClock snapshot(Stream stream);
  [[nodiscard]] const VectorClock& host() const { return host_; }

  [[nodiscard]] Moment now() { return ++moment_; }
  // The last event that was recorded on the stream (0: none), and on any other one.
  [[nodiscard]] Moment last_record(Stream stream) const;
  [[nodiscard]] Moment last_record_elsewhere(Stream stream) const;

 private:
  struct Line {
    VectorClock clock;  // without what the host knows
    Epoch epoch = 1;
    Moment last_record = 0;
    bool is_blocking = false;
    bool host_has_all = false;  // since then nothing happened here, and nobody asked for the epoch
  };
  // Ends the epoch: what comes later is not covered by what was just handed on.
  void hand_on(Stream stream, VectorClock* to);
  // For whatever changes a line, or hands its epoch out.
  [[nodiscard]] Line& line(Stream stream);

  std::vector<Line> lines_;  // by stream
  std::vector<Stream> blocking_;
  std::unordered_map<Event, VectorClock> events_;
  VectorClock host_;
  Moment moment_ = 0;
};

}  // namespace simcuda::order
