// Goal: the heap decides as TensorFlow's and XLA's BFCAllocator and ONNX Runtime's BFCArena do.
// Method: each rule alone, on memory that is numbers, with the places and sizes that the originals
// gave for the same requests. That all rules together give the same as the originals is what
// live_bfc_*_test compares.
#include <cstdint>
#include <optional>
#include <vector>

#include "allocators/bfc/bfc.h"
#include "allocators/bfc/heap.h"
#include "base/bytes.h"
#include "base/error.h"
#include "tests/catch.h"

namespace allocmark::bfc {
namespace {

constexpr std::uint64_t kBase = std::uint64_t{1} << 40;

// Regions one behind the other with a hole between, up to so many bytes at once.
class Numbers final : public Source {
 public:
  explicit Numbers(std::uint64_t room_bytes, std::uint64_t hole_bytes = kMiB)
      : room_bytes_(room_bytes), hole_bytes_(hole_bytes) {}

  std::optional<Region> take(std::uint64_t /*alignment_bytes*/, std::uint64_t size_bytes) override {
    asked.push_back(size_bytes);
    if (size_bytes > room_bytes_) return std::nullopt;
    room_bytes_ -= size_bytes;
    const std::uint64_t address = next_;
    next_ += size_bytes + hole_bytes_;
    return Region{.address = address, .size_bytes = size_bytes};
  }
  void give(const Region& region) override {
    room_bytes_ += region.size_bytes;
    given.push_back(region.size_bytes);
  }

  std::vector<std::uint64_t> asked;
  std::vector<std::uint64_t> given;

 private:
  std::uint64_t room_bytes_;
  std::uint64_t hole_bytes_;
  std::uint64_t next_ = kBase;
};

HeapOptions tf(std::uint64_t limit_bytes) {
  HeapOptions options = rules_of("tf2.21");
  options.limit_bytes = limit_bytes;
  return options;
}

HeapOptions xla(std::uint64_t limit_bytes) {
  HeapOptions options = rules_of("xla-2026-09");
  options.limit_bytes = limit_bytes;
  return options;
}

HeapOptions ort(std::uint64_t limit_bytes) {
  HeapOptions options = rules_of("ort1.32");
  options.limit_bytes = limit_bytes;
  return options;
}

std::uint64_t place(Heap& heap, const Request& request) {
  const std::optional<std::uint64_t> address = heap.allocate(request);
  REQUIRE(address.has_value());
  return *address - kBase;
}

std::uint64_t place(Heap& heap, std::uint64_t size_bytes) {
  return place(heap, Request{.size_bytes = size_bytes});
}

void free(Heap& heap, std::uint64_t offset) { heap.deallocate(kBase + offset); }

}  // namespace

TEST_CASE("sizes are rounded up to 256 bytes and bins double") {
  CHECK(rounded(1) == 256);
  CHECK(rounded(256) == 256);
  CHECK(rounded(257) == 512);
  CHECK(bin_of(256) == 0);
  CHECK(bin_of(511) == 0);
  CHECK(bin_of(512) == 1);
  CHECK(bin_of(256 * kMiB) == 20);
  CHECK(bin_of(64 * kGiB) == 20);
}

TEST_CASE("a request takes the smallest free chunk that fits, and of equal ones the lowest") {
  Numbers numbers(kGiB);
  Heap heap(tf(16 * kMiB), numbers);
  // Three holes of 1024, 512 and 512 bytes, each behind a live block.
  const std::uint64_t large = place(heap, 1024);
  (void)place(heap, 256);
  const std::uint64_t first = place(heap, 512);
  (void)place(heap, 256);
  const std::uint64_t second = place(heap, 512);
  (void)place(heap, 256);
  free(heap, second);
  free(heap, large);
  free(heap, first);
  CHECK(place(heap, 500) == first);
  CHECK(place(heap, 500) == second);
  CHECK(place(heap, 500) == large);
}

TEST_CASE("a chunk below twice the request is given whole, and split from there on") {
  Numbers numbers(kGiB);
  Heap heap(tf(16 * kMiB), numbers);
  const std::uint64_t hole = place(heap, 1024);
  (void)place(heap, 256);
  free(heap, hole);
  CHECK(place(heap, 768) == hole);
  CHECK(heap.chunk_of(kBase + hole).size_bytes == 1024);
  free(heap, hole);
  CHECK(place(heap, 512) == hole);
  CHECK(heap.chunk_of(kBase + hole).size_bytes == 512);
}

TEST_CASE("a rest of 128 MiB, or as the options say, is split off") {
  Numbers numbers(4 * kGiB);
  Heap heap(tf(kGiB), numbers);
  CHECK(place(heap, 896 * kMiB) == 0);
  CHECK(heap.chunk_of(kBase).size_bytes == 896 * kMiB);
  free(heap, 0);
  CHECK(place(heap, 896 * kMiB + 1) == 0);
  CHECK(heap.chunk_of(kBase).size_bytes == kGiB);
  HeapOptions options = tf(kGiB);
  options.fragmentation_fraction = 0.0625;
  Numbers others(2 * kGiB);
  Heap finer(options, others);
  CHECK(place(finer, 960 * kMiB) == 0);
  CHECK(finer.chunk_of(kBase).size_bytes == 960 * kMiB);
  options = ort(kNoLimit);
  options.rest_bytes_max = 128 * kKiB;
  Heap arena(options, others);
  CHECK(place(arena, 896 * kKiB) == kGiB + kMiB);
  CHECK(arena.free_bytes_largest() == 128 * kKiB);
}

TEST_CASE("a freed chunk is joined with free chunks on both sides") {
  Numbers numbers(kGiB);
  Heap heap(tf(4 * kMiB), numbers);
  const std::uint64_t a = place(heap, kMiB);
  const std::uint64_t b = place(heap, kMiB);
  const std::uint64_t c = place(heap, kMiB);
  free(heap, a);
  free(heap, c);
  CHECK(heap.free_bytes_largest() == 2 * kMiB);
  free(heap, b);
  CHECK(heap.free_bytes_largest() == 4 * kMiB);
}

TEST_CASE("with allow_growth regions double from 2 MiB, up to the limit") {
  HeapOptions options = tf(13 * kMiB);
  options.allow_growth = true;
  Numbers numbers(kGiB);
  Heap heap(options, numbers);
  for (int count = 0; count < 13; ++count) (void)place(heap, kMiB);
  CHECK_FALSE(heap.allocate({.size_bytes = 1}).has_value());
  CHECK(numbers.asked == std::vector<std::uint64_t>{2 * kMiB, 4 * kMiB, 7 * kMiB});
}

TEST_CASE("a request beyond the next region makes that larger, and it is not doubled afterwards") {
  HeapOptions options = tf(100 * kMiB);
  options.allow_growth = true;
  Numbers numbers(kGiB);
  Heap heap(options, numbers);
  (void)place(heap, 9 * kMiB);
  (void)place(heap, 9 * kMiB);
  CHECK(numbers.asked == std::vector<std::uint64_t>{16 * kMiB, 16 * kMiB});
}

TEST_CASE("where the device has less, nine tenths are asked for, again and again") {
  Numbers numbers(8 * kMiB);
  Heap heap(tf(10 * kMiB), numbers);
  CHECK(place(heap, kMiB) == 0);
  // In single precision, rounded up to 256 bytes.
  CHECK(numbers.asked == std::vector<std::uint64_t>{10485760, 9437184, 8493568, 7644416});
  CHECK(heap.counters().pool_bytes == 7644416);
}

TEST_CASE("garbage collection gives unused regions back where a request finds no memory") {
  for (const bool collects : {true, false}) {
    HeapOptions options = tf(8 * kMiB);
    options.allow_growth = true;
    options.garbage_collection = collects;
    Numbers numbers(8 * kMiB);
    Heap heap(options, numbers);
    const std::uint64_t small = place(heap, 2 * kMiB);
    const std::uint64_t large = place(heap, 4 * kMiB);
    free(heap, small);
    free(heap, large);
    CHECK(heap.allocate({.size_bytes = 7 * kMiB}).has_value() == collects);
    CHECK(numbers.given == (collects ? std::vector<std::uint64_t>{2 * kMiB, 4 * kMiB}
                                     : std::vector<std::uint64_t>{}));
    CHECK(heap.collected_count() == (collects ? 2 : 0));
  }
}

TEST_CASE("a timestamped chunk is not joined before its time, unless a request finds none") {
  HeapOptions options = tf(4 * kMiB);
  options.timestamps = true;
  options.garbage_collection = false;
  Numbers numbers(kGiB);
  Heap heap(options, numbers);
  const std::uint64_t a = place(heap, 2 * kMiB);
  const std::uint64_t b = place(heap, 2 * kMiB);
  free(heap, a);  // number 1
  free(heap, b);  // number 2
  CHECK(heap.free_bytes_largest() == 2 * kMiB);
  // Only what was freed up to number 1 may be used.
  CHECK(place(heap, {.size_bytes = kMiB, .freed_before = 1}) == a);
  free(heap, a);  // number 3
  CHECK_FALSE(heap.allocate({.size_bytes = 3 * kMiB, .freed_before = 2}).has_value());
  CHECK(place(heap, 3 * kMiB) == 0);
}

TEST_CASE("a timestamped chunk is joined once the frontier has passed it") {
  HeapOptions options = tf(4 * kMiB);
  options.timestamps = true;
  Numbers numbers(kGiB);
  Heap heap(options, numbers);
  (void)place(heap, 2 * kMiB);
  const std::uint64_t b = place(heap, 2 * kMiB);
  free(heap, 0);
  free(heap, b);
  heap.set_safe_frontier(3);
  CHECK(place(heap, {.size_bytes = 4 * kMiB, .freed_before = 1}) == 0);
}

TEST_CASE("a region right behind another one continues it where the device says so") {
  for (const bool joins : {true, false}) {
    HeapOptions options = tf(6 * kMiB);
    options.allow_growth = true;
    options.joins_regions = joins;
    Numbers numbers(6 * kMiB, 0);
    Heap heap(options, numbers);
    (void)place(heap, kMiB);
    const std::uint64_t last = place(heap, kMiB + 1);
    CHECK(last == (joins ? kMiB : 2 * kMiB));
    CHECK(heap.chunks().regions().size() == (joins ? 1 : 2));
  }
}

TEST_CASE("TensorFlow 2.21 ignores a request's alignment, XLA leaves a free chunk before it") {
  const Request request{.size_bytes = 512, .alignment_bytes = 4096};
  Numbers numbers(kGiB);
  Heap old(tf(4 * kMiB), numbers);
  CHECK(place(old, 256) == 0);
  CHECK(place(old, request) == 256);
  HeapOptions options = xla(4 * kMiB);
  options.spatial_partitioning = false;
  options.lower = {};
  Numbers others(kGiB);
  Heap heap(options, others);
  CHECK(place(heap, 256) == 0);
  CHECK(place(heap, request) == 4096);
  CHECK(place(heap, 2048) == 256);
}

TEST_CASE("XLA serves collective memory from the lower end and all other from the upper one") {
  Numbers numbers(kGiB);
  Heap heap(xla(16 * kMiB), numbers);
  CHECK(place(heap, {.size_bytes = kMiB, .end = End::Lower}) == 0);
  CHECK(place(heap, {.size_bytes = kMiB, .end = End::Upper}) == 15 * kMiB);
  CHECK(place(heap, {.size_bytes = kMiB, .end = End::Upper}) == 14 * kMiB);
  CHECK(place(heap, {.size_bytes = kMiB, .end = End::Lower}) == kMiB);
  // A hole of the upper end serves no request of the lower one, the gap serves both.
  free(heap, 15 * kMiB);
  CHECK(place(heap, {.size_bytes = kMiB, .end = End::Lower}) == 2 * kMiB);
  CHECK(place(heap, {.size_bytes = kMiB, .end = End::Upper}) == 15 * kMiB);
  // 11 MiB are left between: less than twice 6 MiB, so the upper end gets them whole.
  CHECK(place(heap, {.size_bytes = 6 * kMiB, .end = End::Upper}) == 3 * kMiB);
  CHECK(heap.chunk_of(kBase + 3 * kMiB).size_bytes == 11 * kMiB);
  CHECK_FALSE(heap.allocate({.size_bytes = 256, .end = End::Lower}).has_value());
}

TEST_CASE("a second region of two ends is what XLA ends the process with") {
  Numbers numbers(16 * kMiB - 256);
  Heap heap(xla(16 * kMiB), numbers);
  // The region has nine tenths, of which half a MiB is left; the device still has more.
  (void)place(heap, {.size_bytes = 14'500'000, .end = End::Lower});
  CHECK_THROWS_AS(heap.allocate({.size_bytes = kMiB, .end = End::Upper}), EnvironmentError);
}

TEST_CASE("a request that TensorFlow would not come back from is refused and counted") {
  // The size of the next region doubles with each region, also after collections: 10 MiB are 0
  // after 43 times, and 0 is doubled for ever.
  Numbers numbers(8 * kMiB);
  Heap heap(tf(10 * kMiB), numbers);
  int region_count = 0;
  for (; heap.endless_count() == 0 && region_count < 100; ++region_count) {
    free(heap, place(heap, 256));
    // Finds no chunk; the region is given back, and the device has no more than before.
    CHECK_FALSE(heap.allocate({.size_bytes = 15 * kMiB / 2}).has_value());
  }
  CHECK(region_count == 43);
  CHECK_FALSE(heap.allocate({.size_bytes = 256}).has_value());
  CHECK(heap.endless_count() == 2);
}

TEST_CASE("TensorFlow 2.21 asks a device without memory for ever, XLA stops") {
  Numbers none(0);
  Heap old(tf(kMiB), none);
  CHECK_FALSE(old.allocate({.size_bytes = 256}).has_value());
  CHECK(old.endless_count() == 1);
  CHECK(none.asked.back() == 2304);
  Heap heap(xla(kMiB), none);
  CHECK_FALSE(heap.allocate({.size_bytes = 256}).has_value());
  CHECK(heap.endless_count() == 0);
  CHECK(none.asked.back() == 256);
}

TEST_CASE("ONNX Runtime's regions double from 1 MiB, after 1 GiB no more") {
  Numbers numbers(kTiB);
  Heap heap(ort(kNoLimit), numbers);
  for (int count = 0; count < 5; ++count) (void)place(heap, kMiB);
  CHECK(numbers.asked == std::vector<std::uint64_t>{kMiB, 2 * kMiB, 4 * kMiB});
  // A larger request makes the region larger than that, and so the next one; then they have 1 GiB.
  for (int count = 0; count < 3; ++count) (void)place(heap, 3 * kGiB);
  for (int count = 0; count < 10; ++count) (void)place(heap, kGiB);
  CHECK(std::vector<std::uint64_t>(numbers.asked.begin() + 3, numbers.asked.end()) ==
        std::vector<std::uint64_t>{4 * kGiB, 4 * kGiB, 4 * kGiB, 4 * kGiB, kGiB, kGiB, kGiB});
}

TEST_CASE("ONNX Runtime doubles the next region before the device answers") {
  for (const bool first : {true, false}) {
    HeapOptions options = ort(kNoLimit);
    options.first_region_bytes = 16 * kMiB;
    options.arena.doubles_first = first;
    Numbers numbers(8 * kMiB);
    Heap heap(options, numbers);
    // 16 MiB, whose nine tenths are too little.
    CHECK_FALSE(heap.allocate({.size_bytes = 15 * kMiB}).has_value());
    CHECK_FALSE(heap.allocate({.size_bytes = 15 * kMiB}).has_value());
    CHECK(numbers.asked[0] == 16 * kMiB);
    CHECK(numbers.asked[1] == (first ? 32 : 16) * kMiB);
  }
}

TEST_CASE("after a refusal ONNX Runtime asks for no less than 8 KiB") {
  Numbers none(0);
  HeapOptions options = ort(kNoLimit);
  options.first_region_bytes = 16 * kKiB;
  Heap heap(options, none);
  CHECK_FALSE(heap.allocate({.size_bytes = 256}).has_value());
  // Nine tenths, rounded up to 256 bytes; the next would be 7936.
  CHECK(none.asked ==
        std::vector<std::uint64_t>{16384, 14848, 13568, 12288, 11264, 10240, 9216, 8448});
  options.arena.takes_as_requested = true;
  Numbers never(0);
  Heap exact(options, never);
  CHECK_FALSE(exact.allocate({.size_bytes = 256}).has_value());
  CHECK(never.asked == std::vector<std::uint64_t>{256});
  CHECK(heap.endless_count() + exact.endless_count() == 0);
}

TEST_CASE("as_requested takes regions of exactly the rounded request, within the limit") {
  HeapOptions options = ort(4 * kMiB);
  options.arena.takes_as_requested = true;
  Numbers numbers(kGiB);
  Heap heap(options, numbers);
  (void)place(heap, 1000);
  (void)place(heap, 3 * kMiB);
  CHECK_FALSE(heap.allocate({.size_bytes = kMiB}).has_value());
  CHECK(numbers.asked == std::vector<std::uint64_t>{1024, 3 * kMiB});
  CHECK(heap.free_bytes_largest() == 0);
}

TEST_CASE("shrink gives unused regions back, but the first, and growth begins anew at 2 MiB") {
  for (const bool keeps : {true, false}) {
    HeapOptions options = ort(kNoLimit);
    options.arena.keeps_first_region = keeps;
    Numbers numbers(kGiB);
    Heap heap(options, numbers);
    const std::uint64_t first = place(heap, kMiB);
    (void)place(heap, 2 * kMiB);
    const std::uint64_t third = place(heap, 4 * kMiB);
    free(heap, first);
    free(heap, third);
    heap.shrink();
    CHECK(numbers.given == (keeps ? std::vector<std::uint64_t>{4 * kMiB}
                                  : std::vector<std::uint64_t>{kMiB, 4 * kMiB}));
    CHECK(heap.counters().pool_bytes == static_cast<std::int64_t>((keeps ? 3 : 2) * kMiB));
    (void)place(heap, 2 * kMiB);
    CHECK(numbers.asked.back() == 2 * kMiB);
  }
  Numbers numbers(kGiB);
  Heap old(tf(4 * kMiB), numbers);
  free(old, place(old, 256));
  old.shrink();
  CHECK(numbers.given.empty());
}

}  // namespace allocmark::bfc
