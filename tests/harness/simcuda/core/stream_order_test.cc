// Goal: streams, events and gates finish when they should, and a stream's history does not grow.
// The clock is virtual.
#include "harness/simcuda/core/stream_order.h"

#include <cstdint>

#include "tests/catch.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kLaunchesMax = 1024;

struct TwoStreams {
  StreamOrder order{kLaunchesMax};
  StreamId a = order.create_stream(StreamKind::NonBlocking);
  StreamId b = order.create_stream(StreamKind::NonBlocking);
};

TEST_CASE("kernels of a stream run one after the other") {
  TwoStreams at;
  at.order.launch(at.a, 100, 10);
  at.order.launch(at.a, 50, 20);
  CHECK(at.order.stream_finish(at.a, 20).finish_ns == 160);
  CHECK(at.order.query_stream(at.a, 159) == Status::NotReady);
  CHECK(at.order.query_stream(at.a, 160) == Status::Ok);
  at.order.launch(at.a, 5, 200);
  CHECK(at.order.stream_finish(at.a, 200).finish_ns == 205);
  CHECK(at.order.query_stream(at.b, 200) == Status::Ok);
}

TEST_CASE("an event happens when the work before it has ended") {
  TwoStreams at;
  const EventId event = at.order.create_event();
  CHECK(at.order.query_event(event, 0) == Status::Ok);
  CHECK_FALSE(at.order.event_recorded(event));
  at.order.launch(at.a, 100, 10);
  REQUIRE(at.order.record(event, at.a, 20) == Status::Ok);
  at.order.launch(at.a, 100, 20);
  CHECK(at.order.query_event(event, 109) == Status::NotReady);
  CHECK(at.order.query_event(event, 110) == Status::Ok);
  CHECK(at.order.event_finish(event).finish_ns == 110);
  REQUIRE(at.order.record(event, at.b, 300) == Status::Ok);
  CHECK(at.order.event_finish(event).finish_ns == 300);
}

TEST_CASE("a stream that waits for an event goes on after it") {
  TwoStreams at;
  const EventId event = at.order.create_event();
  at.order.launch(at.a, 100, 0);
  REQUIRE(at.order.record(event, at.a, 0) == Status::Ok);
  REQUIRE(at.order.wait(at.b, event, 0) == Status::Ok);
  CHECK(at.order.query_stream(at.b, 50) == Status::NotReady);
  at.order.launch(at.b, 10, 50);
  CHECK(at.order.stream_finish(at.b, 50).finish_ns == 110);
  CHECK(at.order.device_finish(50).finish_ns == 110);
}

TEST_CASE("being ordered behind is transitive and stops at the event") {
  TwoStreams at;
  const StreamId c = at.order.create_stream(StreamKind::NonBlocking);
  const EventId first = at.order.create_event();
  const EventId second = at.order.create_event();
  const Position before = at.order.mark(at.a, 0);
  REQUIRE(at.order.record(first, at.a, 0) == Status::Ok);
  const Position after = at.order.mark(at.a, 0);
  REQUIRE(at.order.wait(at.b, first, 0) == Status::Ok);
  REQUIRE(at.order.record(second, at.b, 0) == Status::Ok);
  CHECK(at.order.ordered_behind(c, at.a) == 0);
  REQUIRE(at.order.wait(c, second, 0) == Status::Ok);
  CHECK(at.order.ordered_behind(c, at.a) >= before);
  CHECK(at.order.ordered_behind(c, at.a) < after);
  CHECK(at.order.event_ordered_behind(second, at.a) == at.order.ordered_behind(c, at.a));
  CHECK(at.order.ordered_behind(at.a, c) == 0);
}

TEST_CASE("a wait that comes later than an event of the same stream is carried on") {
  // Stream b does nothing between its two records but wait for a.
  TwoStreams at;
  const StreamId c = at.order.create_stream(StreamKind::NonBlocking);
  const EventId of_a = at.order.create_event();
  const EventId of_b = at.order.create_event();
  const Position marked = at.order.mark(at.a, 0);
  at.order.mark(at.b, 0);
  REQUIRE(at.order.record(of_a, at.a, 0) == Status::Ok);
  REQUIRE(at.order.record(of_b, at.b, 0) == Status::Ok);
  REQUIRE(at.order.wait(c, of_b, 0) == Status::Ok);
  REQUIRE(at.order.wait(at.b, of_a, 0) == Status::Ok);
  REQUIRE(at.order.record(of_b, at.b, 0) == Status::Ok);
  REQUIRE(at.order.wait(c, of_b, 0) == Status::Ok);
  CHECK(at.order.ordered_behind(c, at.a) >= marked);
}

TEST_CASE("a gate holds up everything behind it, and all ends when it opens") {
  TwoStreams at;
  const EventId event = at.order.create_event();
  REQUIRE(at.order.launch_gated(at.a, 7, 0).status == Status::Ok);
  at.order.launch(at.a, 100, 0);
  REQUIRE(at.order.record(event, at.a, 0) == Status::Ok);
  REQUIRE(at.order.wait(at.b, event, 0) == Status::Ok);
  at.order.launch(at.b, 5, 0);
  CHECK(at.order.stream_finish(at.a, 1000).status == Status::Blocked);
  CHECK(at.order.stream_finish(at.b, 1000).status == Status::Blocked);
  CHECK(at.order.device_finish(1000).status == Status::Blocked);
  CHECK(at.order.event_finish(event).status == Status::Blocked);
  CHECK(at.order.query_event(event, 1000) == Status::NotReady);
  at.order.open_gate(7, 2000);
  CHECK(at.order.event_finish(event).finish_ns == 2100);
  CHECK(at.order.stream_finish(at.b, 2000).finish_ns == 2105);
  CHECK(at.order.query_stream(at.b, 2105) == Status::Ok);
  // An open gate stays open.
  REQUIRE(at.order.launch_gated(at.a, 7, 3000).status == Status::Ok);
  CHECK(at.order.query_stream(at.a, 3000) == Status::Ok);
}

TEST_CASE("an event recorded again behind a gate forgets the first record") {
  TwoStreams at;
  const EventId event = at.order.create_event();
  REQUIRE(at.order.launch_gated(at.a, 1, 0).status == Status::Ok);
  REQUIRE(at.order.record(event, at.a, 0) == Status::Ok);
  REQUIRE(at.order.record(event, at.b, 10) == Status::Ok);
  CHECK(at.order.event_finish(event).finish_ns == 10);
  at.order.open_gate(1, 500);
  CHECK(at.order.event_finish(event).finish_ns == 10);
}

TEST_CASE("what the host can tell ends at the fence of the latest launch") {
  TwoStreams at;
  const Position first = at.order.mark(at.a, 0);
  CHECK(at.order.seen(at.a, first, 0) == first);  // an idle stream: at once
  REQUIRE(at.order.launch_gated(at.a, 1, 0).status == Status::Ok);
  const Position second = at.order.mark(at.a, 0);
  CHECK(at.order.seen(at.a, second, 0) >= first);
  CHECK(at.order.seen(at.a, second, 0) < second);
  REQUIRE(at.order.launch_gated(at.a, 2, 0).status == Status::Ok);
  const Position third = at.order.mark(at.a, 0);
  at.order.open_gate(1, 100);
  CHECK(at.order.seen(at.a, third, 100) >= second);  // the second launch's fence has been passed
  CHECK(at.order.seen(at.a, third, 100) < third);
  at.order.open_gate(2, 200);
  CHECK(at.order.seen(at.a, third, 200) == third);
}

TEST_CASE("records and waits put no fence: frees on both sides of a blocked wait count together") {
  TwoStreams at;
  const EventId event = at.order.create_event();
  REQUIRE(at.order.launch_gated(at.b, 1, 0).status == Status::Ok);
  REQUIRE(at.order.record(event, at.b, 0) == Status::Ok);
  const Position first = at.order.mark(at.a, 0);
  REQUIRE(at.order.wait(at.a, event, 0) == Status::Ok);
  const Position second = at.order.mark(at.a, 0);
  CHECK(at.order.seen(at.a, second, 0) < first);
  at.order.open_gate(1, 100);
  CHECK(at.order.seen(at.a, second, 100) == second);
}

TEST_CASE("blocking streams are ordered with the legacy stream both ways") {
  StreamOrder order(kLaunchesMax);
  const StreamId blocking = order.create_stream(StreamKind::Blocking);
  const StreamId other = order.create_stream(StreamKind::NonBlocking);
  order.launch(blocking, 100, 0);
  order.launch(kLegacyStream, 10, 0);
  CHECK(order.stream_finish(kLegacyStream, 0).finish_ns == 110);
  order.launch(blocking, 1, 0);
  CHECK(order.stream_finish(blocking, 0).finish_ns == 111);
  order.launch(other, 1, 0);
  CHECK(order.stream_finish(other, 0).finish_ns == 1);
  CHECK(order.ordered_behind(kLegacyStream, blocking) >= 1);
  CHECK(order.ordered_behind(other, blocking) == 0);
}

TEST_CASE("a full launch queue makes the host wait for the oldest launch") {
  StreamOrder order(2);
  const StreamId stream = order.create_stream(StreamKind::NonBlocking);
  CHECK(order.launch(stream, 100, 0).work.host_wait_until_ns == 0);
  CHECK(order.launch(stream, 100, 0).work.host_wait_until_ns == 0);
  CHECK(order.launch(stream, 100, 0).work.host_wait_until_ns == 100);
  CHECK(order.stream_finish(stream, 100).finish_ns == 300);
  REQUIRE(order.launch_gated(stream, 1, 300).status == Status::Ok);
  REQUIRE(order.launch_gated(stream, 1, 300).status == Status::Ok);
  CHECK(order.launch(stream, 100, 300).status == Status::Blocked);
  order.open_gate(1, 400);
  CHECK(order.launch(stream, 100, 400).status == Status::Ok);
}

TEST_CASE("a stream's history stays bounded") {
  TwoStreams at;
  const EventId event = at.order.create_event();
  std::uint64_t now_ns = 0;
  for (int i = 0; i < 200000; ++i) {
    // The device falls behind: launches take longer than the host needs for them.
    const Outcome outcome = at.order.launch(at.a, 300, now_ns);
    now_ns = outcome.work.host_wait_until_ns > now_ns ? outcome.work.host_wait_until_ns : now_ns;
    at.order.mark(at.a, now_ns);
    REQUIRE(at.order.record(event, at.a, now_ns) == Status::Ok);
    REQUIRE(at.order.wait(at.b, event, now_ns) == Status::Ok);
    at.order.mark(at.b, now_ns);
    now_ns += 100;
  }
  CHECK(at.order.remembered_count() <= 2 * kLaunchesMax + 2);
  const std::uint64_t end_ns = at.order.device_finish(now_ns).finish_ns;
  CHECK(end_ns == 200000 * 300);
  CHECK(at.order.finished(at.b, end_ns) == at.order.position(at.b));
  CHECK(at.order.finished(at.a, end_ns) == at.order.position(at.a));
  CHECK(at.order.remembered_count() == 0);
}

TEST_CASE("what does not exist is refused") {
  TwoStreams at;
  const StreamId none = 99;
  const EventId event = at.order.create_event();
  CHECK(at.order.launch(none, 1, 0).status == Status::InvalidHandle);
  CHECK(at.order.record(event, none, 0) == Status::InvalidHandle);
  CHECK(at.order.wait(none, event, 0) == Status::InvalidHandle);
  CHECK(at.order.query_stream(none, 0) == Status::InvalidHandle);
  CHECK(at.order.stream_finish(none, 0).status == Status::InvalidHandle);
  REQUIRE(at.order.destroy_event(event));
  CHECK_FALSE(at.order.destroy_event(event));
  CHECK(at.order.record(event, at.a, 0) == Status::InvalidHandle);
  CHECK(at.order.query_event(event, 0) == Status::InvalidHandle);
  CHECK(at.order.event_finish(event).status == Status::InvalidHandle);
  const EventId next = at.order.create_event();
  CHECK(next != event);
  CHECK(at.order.query_event(event, 0) == Status::InvalidHandle);
  CHECK_FALSE(at.order.destroy_stream(kLegacyStream));
  REQUIRE(at.order.destroy_stream(at.a));
  CHECK_FALSE(at.order.destroy_stream(at.a));
  CHECK(at.order.launch(at.a, 1, 0).status == Status::InvalidHandle);
}

TEST_CASE("a destroyed stream finishes its work before its id is used again") {
  TwoStreams at;
  at.order.launch(at.a, 100, 0);
  REQUIRE(at.order.destroy_stream(at.a));
  CHECK(at.order.ended_streams(50).empty());
  CHECK(at.order.device_finish(50).finish_ns == 100);
  REQUIRE(at.order.ended_streams(100).size() == 1);
  at.order.release_stream(at.a);
  CHECK(at.order.create_stream(StreamKind::Blocking) == at.a);
}

}  // namespace
}  // namespace simcuda
