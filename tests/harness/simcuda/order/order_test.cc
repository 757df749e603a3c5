// Goal: two users of the same bytes are found unordered exactly where no event, wait or
// synchronisation stands between them. Method: small programs on two or three streams, with one
// thing missing or in the wrong place; streams 1 to 3 do not wait for the legacy stream.
#include <array>
#include <optional>
#include <vector>

#include "harness/simcuda/order/happens_before.h"
#include "harness/simcuda/order/memory_uses.h"
#include "tests/catch.h"

namespace simcuda::order {
namespace {

constexpr Piece kPiece{.lo = 4096, .hi = 8192};

struct Program {
  HappensBefore order;
  MemoryUses uses{order};

  std::optional<UnorderedUse> take(std::uint64_t request, Stream stream, Piece piece = kPiece) {
    return uses.take(std::array{piece}, {.id = request, .request = request}, stream);
  }
  void give_back(std::uint64_t request, std::vector<Stream> streams, Piece piece = kPiece) {
    uses.give_back(std::array{piece}, {.id = request, .request = request}, streams);
  }
};

}  // namespace

TEST_CASE("one stream follows itself, another one does not") {
  Program program;
  CHECK(!program.take(1, 1));
  program.give_back(1, {1});
  CHECK(!program.take(2, 1));
  program.give_back(2, {1});
  const auto found = program.take(3, 2);
  REQUIRE(found);
  CHECK(found->owner.request == 2);
  CHECK(found->stream == 1);
  CHECK(found->missing == Missing::AnyEvent);
}

TEST_CASE("an event that is recorded after the use and awaited makes the order") {
  Program program;
  (void)program.take(1, 1);
  program.give_back(1, {1});
  program.order.record(7, 1);
  SECTION("by the stream") { program.order.wait(2, 7); }
  SECTION("by the host") { program.order.host_saw(7); }
  SECTION("by way of a third stream") {
    program.order.wait(3, 7);
    program.order.record(8, 3);
    program.order.wait(2, 8);
  }
  CHECK(!program.take(2, 2));
}

TEST_CASE("what is missing is said") {
  Program program;
  (void)program.take(1, 1);
  Missing expected{};
  SECTION("nobody waits") {
    program.give_back(1, {1});
    program.order.record(7, 1);
    expected = Missing::Wait;
  }
  SECTION("the event is too early") {
    program.order.record(7, 1);
    program.give_back(1, {1});
    program.order.wait(2, 7);
    expected = Missing::LaterEvent;
  }
  SECTION("the event is on another stream") {
    program.give_back(1, {1});
    program.order.record(7, 3);
    program.order.wait(2, 7);
    expected = Missing::RightEvent;
  }
  const auto found = program.take(2, 2);
  REQUIRE(found);
  CHECK(found->missing == expected);
}

TEST_CASE("every stream that used the block counts") {
  Program program;
  (void)program.take(1, 1);
  program.give_back(1, {1, 3});
  program.order.record(7, 1);
  program.order.wait(2, 7);
  const auto found = program.take(2, 2);
  REQUIRE(found);
  CHECK(found->stream == 3);
}

TEST_CASE("the host's knowledge orders all later work") {
  Program program;
  (void)program.take(1, 1);
  program.give_back(1, {1});
  SECTION("of one stream") { program.order.host_saw_stream(1); }
  SECTION("of all") { program.order.host_saw_device(); }
  CHECK(!program.take(2, 2));
}

TEST_CASE("the host that saw the device once does not know of later work") {
  Program program;
  (void)program.take(1, 1);
  program.order.record(6, 1);
  program.order.host_saw_device();
  program.give_back(1, {1});
  SECTION("without another look") { CHECK(program.take(2, 2)); }
  SECTION("with another look") {
    program.order.host_saw_device();
    CHECK(!program.take(2, 2));
  }
  SECTION("of a stream that waited for it") {
    program.order.record(7, 1);
    program.order.wait(3, 7);
    program.order.host_saw_stream(3);
    CHECK(!program.take(2, 2));
  }
}

TEST_CASE("only the bytes that were used before are looked at") {
  Program program;
  (void)program.take(1, 1);
  program.give_back(1, {1});
  CHECK(!program.take(2, 2, {.lo = 8192, .hi = 12288}));
  CHECK(program.take(3, 2, {.lo = 8191, .hi = 8192}));
  // Each unordered pair is said once: the new owner takes the old one's place.
  program.give_back(3, {2}, {.lo = 8191, .hi = 8192});
  CHECK(program.take(4, 1, {.lo = 8191, .hi = 8192}));
  CHECK(program.take(5, 3));
}

TEST_CASE("the legacy stream and blocking streams follow each other") {
  Program program;
  program.order.add_stream(1, true);
  program.order.add_stream(2, false);
  (void)program.take(1, 0);
  program.give_back(1, {0});
  SECTION("a blocking stream follows the legacy one") { CHECK(!program.take(2, 1)); }
  SECTION("a non-blocking one does not") { CHECK(program.take(2, 2)); }
  SECTION("the legacy one follows a blocking one") {
    (void)program.take(2, 1);
    program.give_back(2, {1});
    CHECK(!program.take(3, 0));
  }
}

TEST_CASE("a pool orders the next owner behind the free, for these bytes only") {
  Program program;
  program.uses.pool_gave(kPiece, 1);
  CHECK(!program.take(1, 1));
  SECTION("freed on the stream that used it") {
    program.give_back(1, {1});
    program.uses.pool_took(kPiece, 1);
    program.uses.pool_gave(kPiece, 2);
    CHECK(!program.take(2, 2));
  }
  SECTION("freed on a stream that does not follow the use") {
    program.give_back(1, {1, 3});
    program.uses.pool_took(kPiece, 1);
    program.uses.pool_gave(kPiece, 2);
    const auto found = program.take(2, 2);
    REQUIRE(found);
    CHECK(found->stream == 3);
  }
  SECTION("given for one stream and used on another") {
    program.give_back(1, {1});
    program.uses.pool_took(kPiece, 1);
    program.uses.pool_gave(kPiece, 2);
    const auto found = program.take(2, 3, {.lo = 8000, .hi = 8100});
    REQUIRE(found);
    CHECK(found->missing == Missing::AnyEvent);
  }
  SECTION("never used before, and used on another stream than it was given for") {
    program.uses.pool_gave({.lo = 16384, .hi = 20480}, 2);
    const auto found = program.take(2, 3, {.lo = 16384, .hi = 20480});
    REQUIRE(found);
    CHECK(found->missing == Missing::Allocation);
    CHECK(found->stream == 2);
  }
  // The driver rounds up: bytes behind a smaller second block still have the first one's use.
  SECTION("order holds over two owners, also where the second used less") {
    program.give_back(1, {1});
    program.uses.pool_took(kPiece, 1);
    program.uses.pool_gave(kPiece, 2);
    const Piece smaller{.lo = 4096, .hi = 8000};
    CHECK(!program.take(2, 2, smaller));
    program.give_back(2, {2}, smaller);
    program.uses.pool_took(kPiece, 2);
    program.uses.pool_gave(kPiece, 3);
    CHECK(!program.take(3, 3));
  }
}

}  // namespace simcuda::order
