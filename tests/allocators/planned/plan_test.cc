// Goal: a plan has a place for each block that ends before its like begins again, and no two blocks
// that live at once share a byte. Method: steps written down by hand, and random ones whose plan is
// followed for several steps.
#include "allocators/planned/plan.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "allocators/planned/space.h"
#include "base/random.h"
#include "tests/catch.h"

namespace allocmark::planned {
namespace {

using Ranges = std::vector<ByteRange>;

// Names a block by its address. Positive: a request of so many units; negative: the free of that
// block.
struct Row {
  int block = 0;
  std::uint64_t units = 0;
};
void play(Profile& profile, const std::vector<Row>& rows) {
  profile.begin_step();
  for (const Row& row : rows) {
    const auto address = static_cast<std::uint64_t>(row.block < 0 ? -row.block : row.block);
    if (row.block < 0) {
      profile.note_free(address);
    } else {
      profile.note_allocate(address, row.units * kPlanUnitBytes, 0);
    }
  }
}

TEST_CASE("blocks of a step that follow each other share a place") {
  Profile profile;
  play(profile, {{1, 4}, {-1, 0}, {2, 4}, {-2, 0}});
  profile.begin_step();
  REQUIRE(profile.whole_count() == 1);
  const Plan plan = make_plan(nullptr, profile.step(0));
  CHECK(plan.size_bytes == 4 * kPlanUnitBytes);
  CHECK(plan.placed_count == 2);
  CHECK(plan.streams.at(0).requests.at(0).offset == 0);
  CHECK(plan.streams.at(0).requests.at(1).offset == 0);
}

TEST_CASE("a block that ends early in the next step has a place, and what never ends has none") {
  Profile profile;
  // Block 3 is kept for ever; 1 is freed at the start of the next step, as gradients are.
  play(profile, {{3, 8}, {1, 2}, {2, 5}, {-2, 0}});
  play(profile, {{-1, 0}, {13, 8}, {11, 2}, {12, 5}, {-12, 0}});
  play(profile, {{-11, 0}, {23, 8}, {21, 2}, {22, 5}, {-22, 0}});
  profile.begin_step();
  const Plan plan = make_plan(&profile.step(1), profile.step(2));
  const std::vector<PlannedRequest>& requests = plan.streams.at(0).requests;
  CHECK_FALSE(requests.at(0).offset);
  CHECK(requests.at(1).offset);
  CHECK(requests.at(2).offset);
  CHECK(plan.placed_count == 2);
  CHECK(plan.size_bytes == 7 * kPlanUnitBytes);
}

TEST_CASE("a block that meets its like of the next step has no place") {
  Profile profile;
  play(profile, {{1, 2}, {2, 1}, {-2, 0}});
  play(profile, {{11, 2}, {-1, 0}, {12, 1}, {-12, 0}});
  profile.begin_step();
  const Plan plan = make_plan(&profile.step(0), profile.step(1));
  CHECK_FALSE(plan.streams.at(0).requests.at(0).offset);
  CHECK(plan.streams.at(0).requests.at(1).offset);
}

TEST_CASE("streams have parts of their own") {
  Profile profile;
  profile.begin_step();
  profile.note_allocate(1, 1024, 7);
  profile.note_free(1);
  profile.note_allocate(2, 2048, 9);
  profile.note_free(2);
  profile.begin_step();
  const Plan plan = make_plan(nullptr, profile.step(0));
  REQUIRE(plan.streams.size() == 2);
  CHECK(plan.streams[0].part == ByteRange{0, 1024});
  CHECK(plan.streams[1].part == ByteRange{1024, 3072});
  CHECK(plan.streams[1].requests.at(0).offset == 1024);
}

TEST_CASE("a cursor finds requests that were left out, added, or became smaller") {
  StreamPlan plan;
  for (const std::uint64_t size_bytes : {512, 1024, 2048, 4096}) {
    plan.requests.push_back({.size_bytes = size_bytes, .offset = size_bytes});
  }
  plan.later.resize(5);
  Cursor cursor(plan);
  CHECK(cursor.advance(512) == plan.requests.data());
  CHECK(cursor.advance(2048) == &plan.requests[2]);  // 1024 never came
  CHECK(cursor.advance(3584) == &plan.requests[3]);  // smaller than planned
  CHECK(cursor.advance(8192) == nullptr);
  cursor.restart();
  CHECK(cursor.advance(8192) == nullptr);  // larger than planned
  CHECK(cursor.advance(1024) == &plan.requests[1]);
}

TEST_CASE("what the rest of a step takes is known, without ranges that touch") {
  Profile profile;
  play(profile, {{1, 4}, {2, 4}, {-1, 0}, {-2, 0}, {3, 2}, {-3, 0}});
  profile.begin_step();
  const Plan plan = make_plan(nullptr, profile.step(0));
  Cursor cursor(plan.streams.at(0));
  CHECK(cursor.later() == Ranges{{0, 8 * kPlanUnitBytes}});
  REQUIRE(cursor.advance(4 * kPlanUnitBytes) != nullptr);
  REQUIRE(cursor.advance(4 * kPlanUnitBytes) != nullptr);
  const std::uint64_t last = plan.streams[0].requests[2].offset.value();
  CHECK(cursor.later() == Ranges{{last, last + 2 * kPlanUnitBytes}});
  REQUIRE(cursor.advance(2 * kPlanUnitBytes) != nullptr);
  CHECK(cursor.later().empty());
}

TEST_CASE("a hole is free and is not needed later") {
  Space space;
  REQUIRE(space.take({.begin = 0, .end = 10}));
  REQUIRE(space.take({.begin = 20, .end = 30}));
  CHECK_FALSE(space.take({.begin = 9, .end = 11}));
  CHECK_FALSE(space.take({.begin = 15, .end = 21}));
  CHECK_FALSE(space.take({.begin = 22, .end = 24}));
  const ByteRange whole{.begin = 0, .end = 100};
  const Ranges later{{10, 14}, {35, 90}};
  CHECK(space.take_hole(6, whole, later) == 14);
  CHECK(space.take_hole(5, whole, later) == 30);
  CHECK(space.take_hole(10, whole, later) == 90);
  CHECK_FALSE(space.take_hole(1, whole, later));
  CHECK(space.taken_bytes() == 41);
  CHECK(space.give(14));
  CHECK_FALSE(space.give(14));
  CHECK(space.take_hole(3, whole, later) == 14);
  CHECK_FALSE(space.take_hole(101, whole, {}));
}

TEST_CASE("a hole is the lowest of its part that neither lives nor comes") {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    Space space;
    std::vector<bool> taken(64, false);
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t begin = random.below(60);
      const ByteRange range{.begin = begin, .end = begin + 1 + random.below(4)};
      if (!space.take(range)) continue;
      for (std::uint64_t at = range.begin; at < range.end; ++at) taken[at] = true;
    }
    // Blocks of other parts lie before and behind; none crosses a part's bounds.
    ByteRange part{.begin = random.below(30), .end = 34 + random.below(30)};
    while (part.begin > 0 && taken[part.begin - 1]) --part.begin;
    while (part.end < 64 && taken[part.end]) ++part.end;
    Ranges later;
    std::vector<bool> used = taken;
    for (std::uint64_t at = random.below(20); at < 60; at += 3 + random.below(20)) {
      later.push_back({at, at + 2});
      used[at] = used[at + 1] = true;
    }
    if (random.below(3) == 0) {
      later.clear();
      used = taken;
    }
    const std::uint64_t size = 1 + random.below(12);
    std::optional<std::uint64_t> wanted;
    for (std::uint64_t at = part.begin; !wanted && at + size <= part.end; ++at) {
      bool is_free = true;
      for (std::uint64_t i = at; i < at + size; ++i) is_free = is_free && !used[i];
      if (is_free) wanted = at;
    }
    INFO("round " << round << ", part " << part.begin << " to " << part.end << ", size " << size);
    CHECK(space.take_hole(size, part, later) == wanted);
  }
}

// A random step: blocks of random lengths, some of which end in the next step.
std::vector<Row> random_step(Random& random, int block_count, int base, int earlier) {
  std::vector<Row> rows;
  std::vector<int> live;
  std::vector<int> kept;
  for (int i = 1; i <= block_count; ++i) {
    if (i == 3 && earlier > 0) {
      for (int block = block_count - 2; block <= block_count; ++block)
        rows.push_back({-(earlier + block), 0});
    }
    rows.push_back({base + i, 1 + random.below(20)});
    if (i + 2 < block_count) live.push_back(base + i);
    while (!live.empty() && random.below(3) == 0) {
      const std::size_t at = random.below(live.size());
      rows.push_back({-live[at], 0});
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (const int block : live) rows.push_back({-block, 0});
  return rows;
}

TEST_CASE("a program that repeats its step finds every planned place free") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    Profile profile;
    std::vector<std::vector<Row>> steps;
    for (int number = 0; number < 6; ++number) {
      Random random(seed);
      steps.push_back(
          random_step(random, 60, 1000 * (number + 1), number == 0 ? 0 : 1000 * number));
    }
    play(profile, steps[0]);
    play(profile, steps[1]);
    play(profile, steps[2]);
    const Plan plan = make_plan(&profile.step(0), profile.step(1));
    REQUIRE(plan.placed_count == plan.request_count);
    Space space;
    Cursor cursor(plan.streams.at(0));
    std::vector<std::pair<int, std::uint64_t>> places;
    for (std::size_t number = 2; number < steps.size(); ++number) {
      cursor.restart();
      for (const Row& row : steps[number]) {
        if (row.block > 0) {
          const PlannedRequest* request = cursor.advance(row.units * kPlanUnitBytes);
          REQUIRE(request != nullptr);
          const std::uint64_t offset = request->offset.value();
          REQUIRE(space.take({offset, offset + request->size_bytes}));
          places.emplace_back(row.block, offset);
        }
        for (std::size_t i = 0; row.block < 0 && i < places.size(); ++i) {
          if (places[i].first != -row.block) continue;
          REQUIRE(space.give(places[i].second));
          places.erase(places.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace allocmark::planned
