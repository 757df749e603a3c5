// Goal: what went wrong in a pass without checks is found afterwards, with its event, and a good
// pass is left alone. Method: addresses as literals, for a trace of a few events.
#include "harness/core/check/pass_places.h"

#include <optional>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace allocmark {
namespace {

Event asked(std::uint64_t id, std::uint64_t size_bytes) {
  return {.id = id, .size_bytes = size_bytes, .kind = EventKind::Alloc};
}
Event given_back(std::uint64_t id) { return {.id = id, .kind = EventKind::Free}; }

std::vector<void*> at(const std::vector<std::uintptr_t>& addresses) {
  std::vector<void*> places;
  for (const std::uintptr_t address : addresses) {
    places.push_back(reinterpret_cast<void*>(address));
  }
  return places;
}

std::optional<std::string> broken_in(const std::vector<Event>& events,
                                     const std::vector<void*>& places) {
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  compiler.compile(events, steps);
  PassPlaces pass(places, 512);
  (void)pass.run({.events = events, .steps = steps, .slot_count = compiler.slot_count()});
  return pass.broken();
}

const std::vector<Event> kFewEvents = {asked(1, 1024), asked(2, 512), given_back(1),
                                       asked(3, 512),  given_back(2), given_back(3)};

TEST_CASE("a pass whose blocks are apart, and one that uses freed memory again, break no rule") {
  CHECK_FALSE(broken_in(kFewEvents, at({0x1000, 0x1400, 0x2000})));
  CHECK_FALSE(broken_in(kFewEvents, at({0x1000, 0x1400, 0x1200})));
}

TEST_CASE("live memory that goes out again is found, with both blocks and the event") {
  const auto broken = broken_in(kFewEvents, at({0x1000, 0x1400, 0x1400}));
  REQUIRE(broken);
  CHECK(broken->find("live blocks never overlap: event 3: block 3") != std::string::npos);
  CHECK(broken->find("block 2 (event 1") != std::string::npos);
}

TEST_CASE("an address that is not aligned is found") {
  const auto broken = broken_in(kFewEvents, at({0x1000, 0x1410, 0x2000}));
  REQUIRE(broken);
  CHECK(broken->find("aligned") != std::string::npos);
}

TEST_CASE("a failed request has no place, and a pass that stopped has fewer than the trace") {
  CHECK_FALSE(broken_in(kFewEvents, at({0, 0x1400, 0x1000})));
  CHECK_FALSE(broken_in(kFewEvents, at({0x1000})));
}

}  // namespace
}  // namespace allocmark
