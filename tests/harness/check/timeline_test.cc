// Goal: a timeline keeps what a reader must see (peaks, ends, failures, maps) of any number of
// events in a file of bounded size. Method: moments and blocks by hand.
#include "harness/core/check/timeline.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::size_t moment_count(const std::string& json) {
  const std::size_t begin = json.find("\"event_index\":[");
  const std::string list = json.substr(begin, json.find(']', begin) - begin);
  return static_cast<std::size_t>(std::count(list.begin(), list.end(), ',')) + 1;
}

MemorySegment striped(std::uint64_t block_count) {
  MemorySegment segment{.address = 1 * kMiB, .size_bytes = block_count * 512};
  for (std::uint64_t i = 0; i < block_count; ++i) {
    segment.blocks.push_back(
        {.address = 1 * kMiB + i * 512, .size_bytes = 512, .state = MemoryBlockState::Allocated});
  }
  return segment;
}

TEST_CASE("a short timeline keeps every moment") {
  Timeline timeline(3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    timeline.add({.event_index = i, .requested_bytes = 10 * i, .reserved_bytes = 100});
  }
  CHECK(timeline.to_json("ab") ==
        "{\"kind\":\"timeline\",\"schema_version\":\"1.1.0\",\"cell_id\":\"ab\",\"event_count\":3,"
        "\"event_index\":[0,1,2],\"requested_bytes\":[0,10,20],\"allocated_bytes\":null,"
        "\"active_bytes\":null,\"reserved_bytes\":[100,100,100],\"oom_event_index\":[],"
        "\"snapshots\":[]}\n");
}

TEST_CASE("where steps begin is kept, unless there are too many for a whole axis") {
  Timeline timeline(3);
  timeline.add_mark(0);
  timeline.add_mark(2);
  CHECK(timeline.to_json("ab").find("\"mark_event_index\":[0,2],") != std::string::npos);
  for (std::uint64_t i = 2; i < Timeline::kMarkCountMax; ++i) timeline.add_mark(i);
  CHECK(timeline.to_json("ab").find("mark_event_index") == std::string::npos);
}

TEST_CASE("a long timeline keeps the highest moment and at most 2000") {
  constexpr std::uint64_t kEvents = 1'234'567;
  Timeline timeline(kEvents);
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    const std::uint64_t requested_bytes = i == 777'777 ? 987'654'321 : i % 1000;
    if (timeline.wants(i, requested_bytes)) {
      timeline.add({.event_index = i, .requested_bytes = requested_bytes});
    }
  }
  const std::string json = timeline.to_json("ab");
  CHECK(moment_count(json) <= 2000);
  CHECK(moment_count(json) >= 1900);
  CHECK(json.find(",777777,") != std::string::npos);
  CHECK(json.find(",987654321,") != std::string::npos);
  CHECK(json.find(",1234566]") != std::string::npos);
}

TEST_CASE("an empty trace and events beyond its end leave an empty timeline") {
  Timeline timeline(0);
  CHECK_FALSE(timeline.wants(0, 1));
  timeline.add({.event_index = 5, .requested_bytes = 1});
  CHECK(timeline.to_json("ab").find("\"event_index\":[],\"requested_bytes\":[]") !=
        std::string::npos);
}

TEST_CASE("maps are taken at even distances, at the end and at the first failure") {
  Timeline timeline(4800);
  std::vector<std::uint64_t> taken;
  for (std::uint64_t i = 0; i < 4800; ++i) {
    if (i == 50 || i == 60) timeline.add_oom(i);
    if (!timeline.wants_map(i)) continue;
    taken.push_back(i);
    timeline.add_map({.event_index = i, .segments = {striped(2)}});
  }
  REQUIRE(taken.size() == 49);
  CHECK(taken[0] == 50);
  CHECK(taken[1] == 99);
  CHECK(taken.back() == 4799);
  const std::string json = timeline.to_json("ab");
  CHECK(json.find("\"oom_event_index\":[50,60]") != std::string::npos);
  CHECK(count_of(json, "\"segments\"") == 49);
  // Addresses count from the lowest.
  CHECK(json.find("\"blocks\":[[0,512,1],[512,512,1]]") != std::string::npos);
}

TEST_CASE("equal neighbours of a large map are joined, and all maps together stay bounded") {
  Timeline timeline(48);
  timeline.add_map({.event_index = 0, .segments = {striped(1000)}});
  CHECK(timeline.to_json("ab").find("\"blocks\":[[0,512000,1]]") != std::string::npos);
  MemorySegment mixed = striped(50'000);
  for (std::size_t i = 0; i < mixed.blocks.size(); i += 2) {
    mixed.blocks[i].state = MemoryBlockState::Free;
  }
  timeline.add_map({.event_index = 1, .segments = {mixed}});
  timeline.add_map({.event_index = 2, .segments = {mixed}});
  CHECK(count_of(timeline.to_json("ab"), "\"segments\"") == 2);
}

TEST_CASE("streams are numbered by appearance") {
  Timeline timeline(1);
  MemorySegment first = striped(1);
  first.stream = 0x7f00'1234'5678;
  MemorySegment second = striped(1);
  second.stream = 5;
  timeline.add_map({.event_index = 0, .segments = {first, second}});
  const std::string json = timeline.to_json("ab");
  CHECK(json.find("\"stream\":0") < json.find("\"stream\":1"));
  CHECK(json.find("\"stream\":1") != std::string::npos);
}

TEST_CASE("live blocks become stretches with free room between them") {
  const auto live = [](std::uint64_t address, std::uint64_t size_bytes) {
    return MemoryBlock{
        .address = address, .size_bytes = size_bytes, .state = MemoryBlockState::Allocated};
  };
  const std::vector<MemorySegment> segments =
      segments_of_live({live(100 * kMiB, 1000), live(4096, 1000), live(8192, 100)});
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].address == 4096);
  CHECK(segments[0].size_bytes == 8192 + 100 - 4096);
  REQUIRE(segments[0].blocks.size() == 3);
  CHECK(segments[0].blocks[1].state == MemoryBlockState::Free);
  CHECK(segments[0].blocks[1].address == 4096 + 1000);
  CHECK(segments[0].blocks[1].size_bytes == 8192 - 4096 - 1000);
  CHECK(segments[1].address == 100 * kMiB);
  CHECK(segments_of_live({}).empty());
}

}  // namespace
}  // namespace allocmark
