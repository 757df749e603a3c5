// Goal: the heap decides as CuPy 14's pool does. Method: cases worked out by hand from the rules of
// its source, and random programs against a slow model that keeps no index.
#include "allocators/cupy/heap.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace allocmark::cupy {
namespace {

// Hands out ever higher addresses, up to a capacity; notes what is asked and given back.
class FakeSource final : public Source {
 public:
  explicit FakeSource(std::uint64_t capacity_bytes = ~std::uint64_t{0})
      : capacity_bytes_(capacity_bytes) {}
  std::optional<std::uint64_t> take(std::uint64_t size_bytes) override {
    asked.push_back(size_bytes);
    if (held_bytes + size_bytes > capacity_bytes_) return std::nullopt;
    const std::uint64_t address = next_;
    next_ += std::uint64_t{1} << 40;
    held_bytes += size_bytes;
    sizes_[address] = size_bytes;
    return address;
  }
  void give(std::uint64_t address) override {
    REQUIRE(sizes_.contains(address));
    held_bytes -= sizes_.at(address);
    sizes_.erase(address);
  }
  std::vector<std::uint64_t> asked;
  std::uint64_t held_bytes = 0;

 private:
  std::uint64_t capacity_bytes_;
  std::uint64_t next_ = std::uint64_t{1} << 40;
  std::map<std::uint64_t, std::uint64_t> sizes_;
};

}  // namespace

TEST_CASE("the device is asked for the size in units of 512 B, and a freed chunk serves again") {
  FakeSource source;
  Heap heap(source);
  const std::uint64_t first = heap.allocate({.size_bytes = 513}).value();
  CHECK(heap.deallocate(first));
  CHECK(heap.allocate({.size_bytes = 1000}) == first);
  CHECK(source.asked == std::vector<std::uint64_t>{1024});
  CHECK_FALSE(heap.deallocate(first + 512));
  CHECK(heap.deallocate(first));
  CHECK_FALSE(heap.deallocate(first));  // twice
}

TEST_CASE("the smallest chunk that is large enough is taken, and its rest is split off") {
  FakeSource source;
  Heap heap(source);
  const std::uint64_t large = heap.allocate({.size_bytes = 8192}).value();
  const std::uint64_t small = heap.allocate({.size_bytes = 4096}).value();
  REQUIRE((heap.deallocate(large) && heap.deallocate(small)));
  CHECK(heap.allocate({.size_bytes = 1024}) == small);
  CHECK(heap.allocate({.size_bytes = 512}) == small + 1024);  // 2560 B are left there
  CHECK(heap.allocate({.size_bytes = 4096}) == large);
  CHECK(heap.free_count() == 2);
  CHECK(heap.free_bytes(0) == 2560 + 4096);
  CHECK(heap.free_bytes_largest(0) == 4096);
  CHECK(heap.counters().total_bytes == 8192 + 4096);
}

TEST_CASE("a freed chunk is joined with both neighbours, and a whole one goes back") {
  FakeSource source;
  Heap heap(source);
  const std::uint64_t at = heap.allocate({.size_bytes = 1536}).value();
  REQUIRE(heap.deallocate(at));
  const std::uint64_t a = heap.allocate({.size_bytes = 512}).value();
  const std::uint64_t b = heap.allocate({.size_bytes = 512}).value();
  const std::uint64_t c = heap.allocate({.size_bytes = 512}).value();
  CHECK((a == at && b == at + 512 && c == at + 1024));
  REQUIRE((heap.deallocate(a) && heap.deallocate(c)));
  heap.free_all_blocks();  // a part of a segment stays
  CHECK(source.held_bytes == 1536);
  REQUIRE(heap.deallocate(b));
  CHECK(heap.free_count() == 1);
  heap.free_all_blocks();
  CHECK(source.held_bytes == 0);
  CHECK(heap.counters().total_bytes == 0);
}

TEST_CASE("a stream gets no chunk of another one") {
  FakeSource source;
  Heap heap(source);
  const std::uint64_t at = heap.allocate({.size_bytes = 512, .stream = 1}).value();
  REQUIRE(heap.deallocate(at));
  CHECK(heap.allocate({.size_bytes = 512, .stream = 2}) != at);
  CHECK(heap.allocate({.size_bytes = 512, .stream = 1}) == at);
}

TEST_CASE("where the device refuses, whole chunks of all streams go back and it is asked again") {
  FakeSource source(4096);
  Heap heap(source);
  const std::uint64_t other = heap.allocate({.size_bytes = 2048, .stream = 7}).value();
  REQUIRE(heap.deallocate(other));
  REQUIRE(heap.allocate({.size_bytes = 4096}).has_value());
  CHECK(source.asked == std::vector<std::uint64_t>{2048, 4096, 4096});
  CHECK(heap.counters().retry_count == 1);
  CHECK_FALSE(heap.allocate({.size_bytes = 512}).has_value());
  CHECK(source.asked.size() == 6);  // three times in vain
  CHECK(heap.counters().total_bytes == 4096);
}

TEST_CASE("a limit gives back the cache first, but not for what is larger than itself") {
  FakeSource source;
  Heap heap(source, 4096);
  const std::uint64_t at = heap.allocate({.size_bytes = 2048}).value();
  REQUIRE(heap.deallocate(at));
  CHECK_FALSE(heap.allocate({.size_bytes = 4097}).has_value());
  CHECK(source.held_bytes == 2048);  // it was not looked at
  CHECK(heap.allocate({.size_bytes = 4096}).has_value());
  CHECK(source.held_bytes == 4096);
  CHECK(source.asked == std::vector<std::uint64_t>{2048, 4096});
}

TEST_CASE("of equal chunks the one freed last is taken, or the one that is wanted") {
  FakeSource source;
  Heap heap(source);
  const std::uint64_t a = heap.allocate({.size_bytes = 512}).value();
  const std::uint64_t b = heap.allocate({.size_bytes = 512}).value();
  REQUIRE((heap.deallocate(b) && heap.deallocate(a)));
  CHECK(heap.allocate({.size_bytes = 512}) == a);
  REQUIRE(heap.deallocate(a));
  CHECK(heap.allocate({.size_bytes = 512, .wanted_address = b}) == b);
}

TEST_CASE("random programs are served as by a model without an index") {
  std::mt19937_64 random(5);
  const auto up_to = [&](std::uint64_t most) { return random() % most + 1; };
  FakeSource source(1 << 20);
  Heap heap(source);
  struct Piece {
    std::uint64_t size_bytes, stream, segment;
    bool used;
  };
  std::map<std::uint64_t, Piece> pieces;  // by address
  const auto join = [&] {
    for (auto at = pieces.begin(); at != pieces.end();) {
      const auto next = std::next(at);
      if (next == pieces.end()) return;
      if (!at->second.used && !next->second.used && at->second.segment == next->second.segment) {
        at->second.size_bytes += next->second.size_bytes;
        pieces.erase(next);
      } else {
        at = next;
      }
    }
  };
  std::size_t served_count = 0, refused_count = 0;
  for (int step = 0; step < 20000; ++step) {
    std::vector<std::uint64_t> used;
    for (const auto& [address, piece] : pieces) {
      if (piece.used) used.push_back(address);
    }
    if (!used.empty() && random() % 2 == 0) {
      const std::uint64_t address = used[random() % used.size()];
      REQUIRE(heap.deallocate(address));
      pieces.at(address).used = false;
      join();
      continue;
    }
    const Request request{.size_bytes = up_to(40) * up_to(2000), .stream = random() % 2};
    const std::uint64_t wanted = (request.size_bytes + 511) / 512 * 512;
    std::uint64_t least = ~std::uint64_t{0};
    for (const auto& [address, piece] : pieces) {
      if (!piece.used && piece.stream == request.stream && piece.size_bytes >= wanted)
        least = std::min(least, piece.size_bytes);
    }
    const std::optional<std::uint64_t> got = heap.allocate(request);
    if (least != ~std::uint64_t{0}) {
      REQUIRE(got.has_value());
      const auto found = pieces.find(*got);
      REQUIRE(found != pieces.end());
      REQUIRE((!found->second.used && found->second.stream == request.stream &&
               found->second.size_bytes == least));
      if (least > wanted)
        pieces[*got + wanted] = {least - wanted, request.stream, found->second.segment, false};
      found->second.size_bytes = wanted;
      found->second.used = true;
      ++served_count;
      continue;
    }
    std::uint64_t held = 0, unmovable = 0;
    std::map<std::uint64_t, int> piece_count;
    for (const auto& [address, piece] : pieces) ++piece_count[piece.segment];
    for (const auto& [address, piece] : pieces) {
      held += piece.size_bytes;
      if (piece.used || piece_count[piece.segment] > 1) unmovable += piece.size_bytes;
    }
    if (held + wanted > (1 << 20)) {
      std::erase_if(pieces, [&](const auto& one) {
        return !one.second.used && piece_count[one.second.segment] == 1;
      });
      held = unmovable;
    }
    REQUIRE(got.has_value() == (held + wanted <= (1 << 20)));
    refused_count += got ? 0 : 1;
    if (got) pieces[*got] = {wanted, request.stream, *got, true};
    REQUIRE(heap.counters().total_bytes == held + (got ? wanted : 0));
  }
  CHECK(served_count > 1000);
  CHECK(refused_count > 100);
}

}  // namespace allocmark::cupy
