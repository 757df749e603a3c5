// Goal: reuse that comes too early for a kernel that ends by itself is found, and nothing else is.
// Method: a made-up clock; every story is a few calls with literals.
#include "harness/core/check/stream_hazards.h"

#include <cstdint>
#include <optional>

#include "harness/core/replay/block_pattern.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

ShadowBlock block_on(std::uint64_t id, std::uint64_t address, std::uint64_t size_bytes,
                     std::uint32_t stream) {
  return {
      .event_index = id, .id = id, .address = address, .size_bytes = size_bytes, .stream = stream};
}

TEST_CASE("memory of a freed block is in use until the kernels before its free have ended") {
  StreamHazards hazards;
  hazards.launch({.stream = 0, .now_ns = 1000, .duration_ns = 500});
  hazards.launch({.stream = 0, .now_ns = 1010, .duration_ns = 500});  // begins at 1500
  hazards.deallocate(block_on(1, 4096, 512, 0), 1020);
  const auto broken = hazards.early_reuse(block_on(2, 4096, 512, 1), 1999);
  REQUIRE(broken);
  CHECK(broken->rule == HeapRule::NoEarlyReuse);
  CHECK(broken->user_stream == 0);
  CHECK(broken->other->id == 1);
  CHECK(broken->block.id == 2);
  CHECK(!hazards.early_reuse(block_on(2, 4096, 512, 0), 1999));  // its own stream runs after it
  CHECK(!hazards.early_reuse(block_on(2, 4096, 512, 1), 2000));
  CHECK(hazards.segment_count() == 0);
}

TEST_CASE("work that is launched after the free, or is over before it, is no use") {
  StreamHazards hazards;
  hazards.launch({.stream = 0, .now_ns = 0, .duration_ns = 100});
  hazards.deallocate(block_on(1, 4096, 512, 0), 200);
  hazards.launch({.stream = 0, .now_ns = 210, .duration_ns = 1000});
  CHECK(!hazards.early_reuse(block_on(2, 4096, 512, 1), 220));
}

TEST_CASE("streams that were recorded for the block use it too, and only that block") {
  StreamHazards hazards;
  hazards.launch({.stream = 3, .now_ns = 0, .duration_ns = 100});
  hazards.record(1, 3);
  hazards.deallocate(block_on(1, 4096, 512, 0), 10);
  hazards.deallocate(block_on(2, 8192, 512, 0), 10);
  const auto broken = hazards.early_reuse(block_on(4, 4096, 512, 0), 20);
  REQUIRE(broken);
  CHECK(broken->user_stream == 3);
  CHECK(!hazards.early_reuse(block_on(5, 8192, 512, 1), 20));
  hazards.end_work(3);
  CHECK(!hazards.early_reuse(block_on(4, 4096, 512, 0), 20));
}

TEST_CASE("work without an end lasts until the host has waited") {
  StreamHazards hazards;
  hazards.launch({.stream = 1, .now_ns = 50, .duration_ns = UINT64_MAX});
  hazards.deallocate(block_on(1, 4096, 512, 1), 60);
  CHECK(hazards.early_reuse(block_on(2, 4096, 1, 0), UINT64_MAX - 1));
  hazards.synchronize();
  CHECK(!hazards.early_reuse(block_on(2, 4096, 1, 0), 70));
}

TEST_CASE("a use that ends at a point is over when its stream has got past it, and not before") {
  StreamHazards hazards;
  std::uint64_t last_point = 0;
  const auto make_point = [&](std::uint32_t) { return ++last_point; };
  hazards.launch({.stream = 1, .now_ns = 50, .duration_ns = UINT64_MAX});
  hazards.deallocate(block_on(1, 4096, 512, 1), 60, make_point);
  // More work on the stream after the free says nothing about the block.
  hazards.launch({.stream = 1, .now_ns = 70, .duration_ns = UINT64_MAX});
  hazards.deallocate(block_on(2, 8192, 512, 1), 80, make_point);
  REQUIRE(hazards.early_reuse(block_on(3, 4096, 512, 0), 90));
  CHECK(hazards.early_reuse(block_on(3, 4096, 512, 0), 90)->user_point == 1);
  hazards.pass(1, 1);
  CHECK(!hazards.early_reuse(block_on(3, 4096, 512, 0), 90));
  REQUIRE(hazards.early_reuse(block_on(4, 8192, 512, 0), 90));
  CHECK(hazards.early_reuse(block_on(4, 8192, 512, 0), 90)->user_point == 2);
  hazards.pass(1, 2);
  CHECK(!hazards.early_reuse(block_on(4, 8192, 512, 0), 90));
  CHECK(last_point == 2);
}

TEST_CASE("parts of memory that are reused and freed again keep what is known of the rest") {
  StreamHazards hazards;
  hazards.launch({.stream = 0, .now_ns = 0, .duration_ns = 1000});
  hazards.deallocate(block_on(1, 0x1000, 0x1000, 0), 10);
  // Its middle goes to another block of stream 0, whose kernel runs longer.
  hazards.launch({.stream = 0, .now_ns = 20, .duration_ns = 1000});
  hazards.deallocate(block_on(2, 0x1400, 0x400, 0), 30);
  CHECK(hazards.segment_count() == 3);
  CHECK(hazards.early_reuse(block_on(3, 0x1000, 0x400, 1), 500)->other->id == 1);
  CHECK(hazards.early_reuse(block_on(3, 0x1500, 8, 1), 500)->other->id == 2);
  CHECK(hazards.early_reuse(block_on(3, 0x1800, 8, 1), 999)->other->id == 1);
  CHECK(!hazards.early_reuse(block_on(3, 0x1000, 0x400, 1), 1000));
  CHECK(hazards.early_reuse(block_on(3, 0x1400, 0x400, 1), 1999)->other->id == 2);
  CHECK(!hazards.early_reuse(block_on(3, 0x2000, 8, 1), 10));
  CHECK(!hazards.early_reuse(block_on(3, 0x0ff8, 8, 1), 10));
  // A use that spans a gap and what is known already.
  hazards.launch({.stream = 2, .now_ns = 1100, .duration_ns = 50});
  hazards.deallocate(block_on(4, 0x0800, 0x2000, 2), 1110);
  CHECK(hazards.early_reuse(block_on(5, 0x0800, 8, 1), 1120)->other->id == 4);
  CHECK(hazards.early_reuse(block_on(5, 0x27f8, 8, 1), 1120)->other->id == 4);
  CHECK(hazards.early_reuse(block_on(5, 0x1500, 8, 0), 1120)->other->id == 4);
  CHECK(hazards.early_reuse(block_on(5, 0x1500, 8, 2), 1120)->other->id == 2);
}

TEST_CASE("a pattern's word names its block and place") {
  const std::uint64_t word = pattern_word({.event_index = 123456, .offset_bytes = 4096});
  CHECK(place_of_word(word).event_index == 123456);
  CHECK(place_of_word(word).offset_bytes == 4096);
  CHECK(pattern_word({.event_index = 123457, .offset_bytes = 4096}) != word);
  CHECK(pattern_word({.event_index = 123456, .offset_bytes = 4104}) != word);
}

}  // namespace
}  // namespace allocmark
