// Goal: the rules of cudaMalloc's heaps, one by one, on top of the replays of whole logs.
#include "harness/simcuda/core/device_heap.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/simcuda/core/newest_fit.h"
#include "tests/catch.h"
#include "tests/harness/simcuda/core/sizes.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kB = 0x7f0000000000;

struct Heap {
  explicit Heap(DeviceConfig config = h200_config(StartState::Plain))
      : memory(config),
        area({config.area_address, config.area_end_address}, config.area_hole),
        heap(config, memory, area, [this](Work&) { ++shortage_count; }) {}
  PhysicalMemory memory;
  ReservedArea area;
  int shortage_count = 0;
  DeviceHeap heap;
};

TEST_CASE("a plain process starts in its initial chunks") {
  Heap at;
  CHECK(at.heap.allocate(20 * kMiB).address == kB + 8 * kMiB);
  CHECK(at.heap.allocate(20 * kMiB).address == kB - 512 * kMiB);
  CHECK(at.heap.allocate(2 * kMiB).address == kB - 492 * kMiB);  // the newest chunk's tail
}

TEST_CASE("the first page of a plain process comes from the second initial chunk") {
  Heap at;
  CHECK(at.heap.allocate(1).address == kB - 66 * kMiB);
}

TEST_CASE("a process that replays c10 starts at 12 MiB") {
  Heap at(h200_config(StartState::C10));
  CHECK(at.heap.allocate(2 * kMiB).address == kB + 12 * kMiB);
}

TEST_CASE("sizes round up to 512 B below 2 MiB and to 2 MiB from there on") {
  Heap at;
  CHECK(at.heap.allocate(1).size_bytes == 512);
  CHECK(at.heap.allocate(2 * kMiB - 512).size_bytes == 2 * kMiB - 512);
  CHECK(at.heap.allocate(2 * kMiB - 511).size_bytes == 2 * kMiB);
  CHECK(at.heap.allocate(3 * kMiB).size_bytes == 4 * kMiB);
}

TEST_CASE("a request of no bytes gives a null pointer, which can be freed") {
  Heap at;
  const AllocationOutcome outcome = at.heap.allocate(0);
  CHECK(outcome.status == Status::Ok);
  CHECK(outcome.address == 0);
  CHECK(at.heap.deallocate(0).status == Status::Ok);
}

TEST_CASE("a slab is taken with its first block and given back with its last") {
  Heap at;
  const AllocationOutcome first = at.heap.allocate(4096);
  CHECK(first.work.pages_taken == 1);
  CHECK_FALSE(first.work.served_by_slab);
  const AllocationOutcome second = at.heap.allocate(4096);
  CHECK(second.work.pages_taken == 0);
  CHECK(second.work.served_by_slab);
  CHECK(second.address == first.address + 4096);
  const Outcome kept = at.heap.deallocate(first.address);
  CHECK(kept.work.served_by_slab);
  CHECK(kept.work.pages_returned == 0);
  CHECK(at.heap.deallocate(second.address).work.pages_returned == 1);
  CHECK(at.memory.used_bytes() == 0);
}

TEST_CASE("of equal small blocks the one that became free first is used") {
  Heap at;
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 6; ++i) {
    blocks.push_back(at.heap.allocate(512).address);
  }
  REQUIRE(at.heap.deallocate(blocks[3]).status == Status::Ok);
  REQUIRE(at.heap.deallocate(blocks[1]).status == Status::Ok);
  CHECK(at.heap.allocate(512).address == blocks[3]);
  CHECK(at.heap.allocate(512).address == blocks[1]);
}

TEST_CASE("only what was allocated can be freed, and once") {
  Heap at;
  const std::uint64_t large = at.heap.allocate(4 * kMiB).address;
  const std::uint64_t small = at.heap.allocate(4096).address;
  CHECK(at.heap.deallocate(large + 2 * kMiB).status == Status::InvalidValue);
  CHECK(at.heap.deallocate(small + 512).status == Status::InvalidValue);
  CHECK(at.heap.deallocate(12345).status == Status::InvalidValue);
  CHECK(at.heap.deallocate(large).status == Status::Ok);
  CHECK(at.heap.deallocate(large).status == Status::InvalidValue);
  CHECK(at.heap.deallocate(small).status == Status::Ok);
  CHECK(at.heap.deallocate(small).status == Status::InvalidValue);
}

TEST_CASE("a request that fails leaves no trace") {
  Heap at(with_usable_bytes(h200_config(StartState::Plain), 64 * kMiB));
  const std::uint64_t first = at.heap.allocate(40 * kMiB).address;
  const std::uint64_t free_bytes = at.memory.free_bytes();
  for (const std::uint64_t size_bytes : {26 * kMiB, 1024 * kMiB, ~std::uint64_t{0}}) {
    const AllocationOutcome outcome = at.heap.allocate(size_bytes);
    CHECK(outcome.status == Status::OutOfMemory);
    CHECK(outcome.address == 0);
  }
  CHECK(at.memory.free_bytes() == free_bytes);
  CHECK(at.heap.live_count() == 1);
  // The same requests in a heap that never failed get the same addresses.
  Heap never_failed;
  CHECK(never_failed.heap.allocate(40 * kMiB).address == first);
  const std::uint64_t next = at.heap.allocate(24 * kMiB).address;
  CHECK(next == never_failed.heap.allocate(24 * kMiB).address);
  CHECK(at.heap.allocate(1).status == Status::OutOfMemory);
  CHECK(at.shortage_count == 3);  // the largest size is refused without asking
}

TEST_CASE("fragmentation fails no request") {
  Heap at(with_usable_bytes(h200_config(StartState::Plain), 64 * kMiB));
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 32; ++i) {
    blocks.push_back(at.heap.allocate(2 * kMiB).address);
  }
  CHECK(at.heap.allocate(2 * kMiB).status == Status::OutOfMemory);
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    REQUIRE(at.heap.deallocate(blocks[i]).status == Status::Ok);
  }
  CHECK(at.heap.allocate(32 * kMiB).status == Status::Ok);
}

TEST_CASE("find names the live block around an address") {
  Heap at;
  const std::uint64_t large = at.heap.allocate(4 * kMiB).address;
  const std::uint64_t small = at.heap.allocate(1000).address;
  CHECK(at.heap.find(large + 3 * kMiB).address == large);
  CHECK(at.heap.find(small + 1023).size_bytes == 1024);
  CHECK(at.heap.find(small + 1024).size_bytes == 0);
  REQUIRE(at.heap.deallocate(large).status == Status::Ok);
  CHECK(at.heap.find(large).size_bytes == 0);
}

TEST_CASE("addresses without memory take places of the large heap but no pages") {
  Heap at;
  const std::optional<std::uint64_t> reserved = at.heap.reserve_addresses(2 * kMiB, kPageBytes);
  REQUIRE(reserved == kB - 66 * kMiB);
  CHECK(at.memory.used_bytes() == 0);
  CHECK(at.heap.deallocate(*reserved).status == Status::InvalidValue);
  CHECK(at.heap.find(*reserved).size_bytes == 0);
  at.heap.give_addresses({*reserved, *reserved + 2 * kMiB});
  CHECK(at.heap.allocate(2 * kMiB).address == *reserved);
}

TEST_CASE("many chunks come and go without losing one") {
  Heap at;
  std::vector<std::uint64_t> blocks;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(at.heap.allocate(30 * kMiB).address);
    }
    for (int i = 0; i < 90; ++i) {
      REQUIRE(at.heap.deallocate(blocks.back()).status == Status::Ok);
      blocks.pop_back();
    }
  }
  for (const std::uint64_t block : blocks) {
    REQUIRE(at.heap.deallocate(block).status == Status::Ok);
  }
  CHECK(at.memory.used_bytes() == 0);
  CHECK(at.heap.allocate(20 * kMiB).address == kB + 8 * kMiB);
}

TEST_CASE("newest fit finds the last slot that is large enough") {
  NewestFit fit;
  fit.reset(5);
  CHECK(fit.slot_count() == 8);
  CHECK_FALSE(fit.last_at_least(1).has_value());
  fit.set(0, 9);
  fit.set(3, 4);
  CHECK(fit.last_at_least(4) == 3);
  CHECK(fit.last_at_least(5) == 0);
  fit.set(3, 0);
  CHECK(fit.last_at_least(1) == 0);
  CHECK_FALSE(fit.last_at_least(10).has_value());
}

}  // namespace
}  // namespace simcuda
