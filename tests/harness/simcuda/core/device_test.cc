// Goal: the pieces of a device together: stream-ordered pools with their attributes, waiting, short
// memory, stream pages. The replays cover the pools' placement; here are rules that a log shows
// only in passing.
#include "harness/simcuda/core/device.h"

#include <cstdint>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/core/sizes.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kKeep = ~std::uint64_t{0};

DeviceConfig plain() { return h200_config(StartState::Plain); }

StreamId add_stream(Device& device) {
  return device.create_stream(StreamKind::NonBlocking, 0).stream;
}

TEST_CASE(
    "the 2nd, 6th and 10th stream take a page, and destroyed ones leave theirs to later ones") {
  Device device(plain());
  std::vector<std::uint64_t> taken;
  std::vector<StreamId> streams;
  for (int i = 1; i <= 11; ++i) {
    const StreamOutcome outcome = device.create_stream(StreamKind::Blocking, 0);
    streams.push_back(outcome.stream);
    if (outcome.work.pages_taken != 0) {
      taken.push_back(static_cast<std::uint64_t>(i));
    }
  }
  CHECK(taken == std::vector<std::uint64_t>{2, 6, 10});
  for (int i = 0; i < 100; ++i) {
    REQUIRE(device.destroy_stream(streams.back(), 0).status == Status::Ok);
    streams.back() = device.create_stream(StreamKind::Blocking, 0).stream;
  }
  CHECK(device.used_bytes() == 3 * kPageBytes);
  CHECK(device.streams().stream_slot_count() == 12);
}

TEST_CASE("a stale address does not give back the page that a stream took there") {
  Device device(plain());
  const std::uint64_t stale = device.allocate(kPageBytes).address;
  REQUIRE(device.deallocate(stale, 0).status == Status::Ok);
  add_stream(device);
  add_stream(device);
  REQUIRE(device.used_bytes() == kPageBytes);
  CHECK(device.find(stale).kind == MemoryKind::None);
  CHECK(device.deallocate(stale, 0).status == Status::InvalidValue);
  CHECK(device.used_bytes() == kPageBytes);
}

// An H200 of 2026-11-23: 24 of 100 random programs, those with little memory that came after one
// with three streams, lay a page lower than where pages stay for good.
TEST_CASE("a request that finds too little memory gets the pages of destroyed streams") {
  DeviceConfig config = plain();
  config.page_limit = 10;
  Device device(config);
  const StreamId kept = add_stream(device);
  std::vector<StreamId> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(add_stream(device));
  CHECK(device.used_bytes() == 2 * kPageBytes);  // of the 2nd and the 6th

  CHECK(device.allocate(9 * kPageBytes).status == Status::OutOfMemory);
  CHECK(device.used_bytes() == 2 * kPageBytes);
  for (const StreamId stream : streams) {
    REQUIRE(device.destroy_stream(stream, 0).status == Status::Ok);
  }
  CHECK(device.used_bytes() == 2 * kPageBytes);
  CHECK(device.allocate(8 * kPageBytes).status == Status::Ok);
  CHECK(device.used_bytes() == 10 * kPageBytes);  // they are kept while memory suffices
  CHECK(device.allocate(2 * kPageBytes).status == Status::Ok);
  CHECK(device.used_bytes() == 10 * kPageBytes);

  CHECK(device.create_stream(StreamKind::Blocking, 0).status == Status::OutOfMemory);
  REQUIRE(device.destroy_stream(kept, 0).status == Status::Ok);
}

TEST_CASE("a process with a kernel that creates 7 streams stands where the c10 replays started") {
  Device grown(h200_config(StartState::Kernel));
  Device started(h200_config(StartState::C10));
  for (int i = 0; i < 7; ++i) {
    add_stream(grown);
  }
  CHECK(grown.free_bytes() == started.free_bytes());
  for (int i = 0; i < 20; ++i) {
    CHECK(grown.allocate(2 * kMiB).address == started.allocate(2 * kMiB).address);
  }
  for (int i = 0; i < 4; ++i) {  // the 8th to the 11th, of which the 10th takes a page
    add_stream(grown);
    add_stream(started);
    CHECK(grown.free_bytes() == started.free_bytes());
  }
}

TEST_CASE("cudaFree waits for all work on the device, cudaMalloc does not") {
  Device device(plain());
  const StreamId stream = add_stream(device);
  device.streams().launch(stream, 1000, 0);
  const AllocationOutcome block = device.allocate(4096);
  CHECK(block.work.host_wait_until_ns == 0);
  CHECK(device.deallocate(block.address, 10).work.host_wait_until_ns == 1000);
  CHECK(device.deallocate(0, 10).work.host_wait_until_ns == 0);
}

TEST_CASE("what would wait for a closed gate changes nothing") {
  Device device(plain());
  const StreamId stream = add_stream(device);
  const std::uint64_t block = device.allocate(4096).address;
  REQUIRE(device.streams().launch_gated(stream, 1, 0).status == Status::Ok);
  CHECK(device.deallocate(block, 0).status == Status::Blocked);
  CHECK(device.synchronize_device(0).status == Status::Blocked);
  CHECK(device.find(block).kind == MemoryKind::Heap);
  device.streams().open_gate(1, 50);
  CHECK(device.deallocate(block, 60).status == Status::Ok);
  CHECK(device.find(block).kind == MemoryKind::None);
}

TEST_CASE("a pool grows in chunks of 32 MiB and gives them back at synchronisation") {
  Device device(plain());
  const AllocationOutcome block = device.allocate_async(40 * kMiB, kLegacyStream, 0, 0);
  CHECK(block.address == kArea);
  CHECK(block.work.chunks_taken == 2);
  CHECK(block.work.chunks_mapped == 2);
  CHECK(device.deallocate_async(block.address, kLegacyStream, 0).work.chunks_returned == 0);
  CHECK(device.used_bytes() == 64 * kMiB);
  CHECK(device.synchronize_stream(kLegacyStream, 0).work.chunks_returned == 2);
  CHECK(device.used_bytes() == 0);
  const MemoryUsage usage = device.pool(kDefaultPool)->usage();
  CHECK(usage.reserved_bytes == 0);
  CHECK(usage.reserved_bytes_high == 64 * kMiB);
  CHECK(usage.used_bytes == 0);
  CHECK(usage.used_bytes_high == 40 * kMiB);
}

TEST_CASE("a pool of host memory takes the device's only where the two are one") {
  constexpr std::uint64_t kLo = std::uint64_t{1} << 45;
  for (const bool is_one_pool : {false, true}) {
    Device device(with_shared_host(
        plain(),
        {.is_one_pool = is_one_pool, .own_bytes = 0, .reserve_bytes = 0, .cached_bytes = 0}));
    const StreamId stream = add_stream(device);
    // Room for two chunks.
    const PoolId pool = device.create_host_pool({kLo, kLo + 4 * kChunkBytes}).pool;
    const AllocationOutcome block = device.allocate_async(kMiB, stream, pool, 0);
    CHECK(block.address == kLo);
    CHECK(device.used_bytes() == (is_one_pool ? kChunkBytes : 0));
    CHECK(device.allocate_async(3 * kChunkBytes, stream, pool, 0).status == Status::OutOfMemory);
    // It lives until its last block is free.
    REQUIRE(device.destroy_pool(pool, 0).status == Status::Ok);
    CHECK(device.holds_pool(pool));
    REQUIRE(device.deallocate_async(block.address, stream, 0).status == Status::Ok);
    REQUIRE(device.synchronize_device(0).status == Status::Ok);
    CHECK_FALSE(device.holds_pool(pool));
    CHECK(device.used_bytes() == 0);
  }
}

TEST_CASE("a threshold keeps memory, and setting it counts as something to settle") {
  Device device(plain());
  MemoryPool& pool = *device.pool(kDefaultPool);
  pool.set_release_threshold(kKeep);
  const std::uint64_t block = device.allocate_async(64 * kMiB, kLegacyStream, 0, 0).address;
  REQUIRE(device.deallocate_async(block, kLegacyStream, 0).status == Status::Ok);
  CHECK(device.synchronize_device(0).work.chunks_returned == 0);
  CHECK(pool.usage().reserved_bytes == 64 * kMiB);
  pool.set_release_threshold(40 * kMiB);
  CHECK(pool.usage().reserved_bytes == 64 * kMiB);
  CHECK(device.synchronize_device(0).work.chunks_returned == 1);
  CHECK(device.trim_pool(kDefaultPool, 32 * kMiB).work.chunks_returned == 0);
  CHECK(device.trim_pool(kDefaultPool, 1).work.chunks_returned == 0);
  CHECK(device.trim_pool(kDefaultPool, 0).work.chunks_returned == 1);
}

// An H200 of 2026-11-24: two random programs on a new pool kept a chunk at their first sync.
TEST_CASE("a threshold above what is reserved leaves nothing to settle") {
  Device device(plain());
  const PoolId own = device.create_pool(0).pool;
  MemoryPool& pool = *device.pool(own);
  pool.set_release_threshold(32 * kMiB);
  const StreamId stream = add_stream(device);
  const StreamId other = add_stream(device);
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t chunks : {2, 1, 2, 1}) {
    blocks.push_back(device.allocate_async(chunks * 32 * kMiB, stream, own, 0).address);
  }
  REQUIRE(device.deallocate_async(blocks[0], stream, 0).status == Status::Ok);
  REQUIRE(device.deallocate_async(blocks[2], stream, 0).status == Status::Ok);
  // Too large for either: both become common, and three of their four chunks go to the new block.
  REQUIRE(device.allocate_async(96 * kMiB, other, own, 0).work.chunks_taken == 0);
  CHECK(device.synchronize_device(0).work.chunks_returned == 0);
  pool.set_release_threshold(64 * kMiB);
  CHECK(device.synchronize_device(0).work.chunks_returned == 1);
}

TEST_CASE("without reuse another stream's pending block is not taken while there is memory") {
  Device device(plain());
  MemoryPool& pool = *device.pool(kDefaultPool);
  pool.set_release_threshold(kKeep);
  pool.set_allow_opportunistic(false);
  const StreamId a = add_stream(device);
  const StreamId b = add_stream(device);
  const std::uint64_t block = device.allocate_async(32 * kMiB, a, 0, 0).address;
  REQUIRE(device.deallocate_async(block, a, 0).status == Status::Ok);
  CHECK(device.allocate_async(32 * kMiB, b, 0, 0).address == kArea + 32 * kMiB);
  pool.set_allow_opportunistic(true);
  CHECK(device.allocate_async(32 * kMiB, b, 0, 0).address == block);
}

TEST_CASE("a stream that comes after a free through an event may take the block, if allowed") {
  const bool follow = GENERATE(true, false);
  Device device(plain());
  MemoryPool& pool = *device.pool(kDefaultPool);
  pool.set_release_threshold(kKeep);
  pool.set_allow_opportunistic(false);
  pool.set_follow_event_dependencies(follow);
  const StreamId a = add_stream(device);
  const StreamId b = add_stream(device);
  StreamOrder& order = device.streams();
  const std::uint64_t block = device.allocate_async(32 * kMiB, a, 0, 0).address;
  REQUIRE(order.launch_gated(a, 1, 0).status == Status::Ok);
  REQUIRE(device.deallocate_async(block, a, 0).status == Status::Ok);
  const EventId event = order.create_event();
  REQUIRE(order.record(event, a, 0) == Status::Ok);
  REQUIRE(order.wait(b, event, 0) == Status::Ok);
  const std::uint64_t next = device.allocate_async(32 * kMiB, b, 0, 0).address;
  CHECK(next == (follow ? block : kArea + 32 * kMiB));
}

TEST_CASE("where the shortest block is freed too late, the one freed first is taken") {
  Device device(plain());
  MemoryPool& pool = *device.pool(kDefaultPool);
  pool.set_release_threshold(kKeep);
  const StreamId a = add_stream(device);
  const StreamId b = add_stream(device);
  StreamOrder& order = device.streams();
  const auto allocate = [&](std::uint64_t size_bytes) {
    const std::uint64_t address = device.allocate_async(size_bytes, a, 0, 0).address;
    REQUIRE(device.allocate_async(512, a, 0, 0).address != 0);  // keeps neighbours apart
    return address;
  };
  const std::uint64_t early = allocate(36 * kMiB);
  const std::uint64_t longer = allocate(34 * kMiB);
  const std::uint64_t shortest = allocate(32 * kMiB);
  REQUIRE(order.launch_gated(a, 1, 0).status == Status::Ok);
  REQUIRE(device.deallocate_async(early, a, 0).status == Status::Ok);
  REQUIRE(device.deallocate_async(longer, a, 0).status == Status::Ok);
  const bool in_time = GENERATE(true, false);
  if (in_time) REQUIRE(device.deallocate_async(shortest, a, 0).status == Status::Ok);
  const EventId event = order.create_event();
  REQUIRE(order.record(event, a, 0) == Status::Ok);
  REQUIRE(order.wait(b, event, 0) == Status::Ok);
  if (!in_time) REQUIRE(device.deallocate_async(shortest, a, 0).status == Status::Ok);
  CHECK(device.allocate_async(32 * kMiB, b, 0, 0).address == (in_time ? shortest : early));
}

TEST_CASE("short of memory, a stream waits on the device for another stream's free, if allowed") {
  const bool internal = GENERATE(true, false);
  Device device(with_usable_bytes(plain(), 66 * kMiB));
  MemoryPool& pool = *device.pool(kDefaultPool);
  pool.set_release_threshold(kKeep);
  pool.set_allow_internal_dependencies(internal);
  const StreamId a = device.create_stream(StreamKind::NonBlocking, 0).stream;
  const StreamId b = device.create_stream(StreamKind::NonBlocking, 0).stream;
  const std::uint64_t block = device.allocate_async(64 * kMiB, a, 0, 0).address;
  device.streams().launch(a, 1000, 0);
  REQUIRE(device.deallocate_async(block, a, 0).status == Status::Ok);
  const AllocationOutcome next = device.allocate_async(64 * kMiB, b, 0, 0);
  CHECK(next.status == (internal ? Status::Ok : Status::OutOfMemory));
  CHECK(next.work.stream_waits == internal);
  CHECK(next.work.host_wait_until_ns == 0);
  CHECK(device.streams().query_stream(b, 999) == (internal ? Status::NotReady : Status::Ok));
  CHECK(device.streams().query_stream(b, 1000) == Status::Ok);
}

TEST_CASE("a pool request that fails gives everything back down to the threshold") {
  Device device(with_usable_bytes(plain(), 130 * kMiB));
  const std::uint64_t block = device.allocate_async(16 * kMiB, kLegacyStream, 0, 0).address;
  const AllocationOutcome failed = device.allocate_async(128 * kMiB, kLegacyStream, 0, 0);
  CHECK(failed.status == Status::OutOfMemory);
  CHECK(failed.address == 0);
  CHECK(device.used_bytes() == 32 * kMiB);
  CHECK(device.pool(kDefaultPool)->usage().used_bytes == 16 * kMiB);
  CHECK(device.allocate_async(16 * kMiB, kLegacyStream, 0, 0).address == block + 16 * kMiB);
  CHECK(device.allocate_async(kKeep, kLegacyStream, 0, 0).status == Status::OutOfMemory);
}

TEST_CASE("cudaMalloc short of memory makes pools give back what they keep") {
  Device device(with_usable_bytes(plain(), 130 * kMiB));
  device.pool(kDefaultPool)->set_release_threshold(kKeep);
  const std::uint64_t block = device.allocate_async(96 * kMiB, kLegacyStream, 0, 0).address;
  REQUIRE(device.deallocate_async(block, kLegacyStream, 0).status == Status::Ok);
  CHECK(device.allocate(64 * kMiB).status == Status::OutOfMemory);  // the block is still pending
  REQUIRE(device.synchronize_device(0).status == Status::Ok);
  const AllocationOutcome outcome = device.allocate(64 * kMiB);
  CHECK(outcome.status == Status::Ok);
  CHECK(outcome.work.pools_gave_back);
  CHECK(outcome.work.chunks_returned == 3);
}

TEST_CASE("cudaFree of a pool block makes it common at once and leaves the used count") {
  Device device(plain());
  const std::uint64_t block = device.allocate_async(40 * kMiB, kLegacyStream, 0, 0).address;
  const Outcome outcome = device.deallocate(block, 0);
  CHECK(outcome.status == Status::Ok);
  CHECK(outcome.work.chunks_returned == 2);
  CHECK(device.pool(kDefaultPool)->usage().used_bytes == 40 * kMiB);
  CHECK(device.deallocate(block, 0).status == Status::InvalidValue);
}

TEST_CASE("a stream-ordered free takes live pool blocks only, and once") {
  Device device(plain());
  const std::uint64_t block = device.allocate_async(1000, kLegacyStream, 0, 0).address;
  const std::uint64_t heap = device.allocate(1000).address;
  CHECK(device.deallocate_async(block + 512, kLegacyStream, 0).status == Status::InvalidValue);
  CHECK(device.deallocate_async(heap, kLegacyStream, 0).status == Status::InvalidValue);
  CHECK(device.deallocate_async(block, 55, 0).status == Status::InvalidHandle);
  CHECK(device.deallocate_async(block, kLegacyStream, 0).status == Status::Ok);
  CHECK(device.deallocate_async(block, kLegacyStream, 0).status == Status::InvalidValue);
  CHECK(device.find(heap).kind == MemoryKind::Heap);
}

TEST_CASE("a destroyed pool lives until its last block is free") {
  Device device(plain());
  const PoolId pool = device.create_pool(0).pool;
  const std::uint64_t block = device.allocate_async(1000, kLegacyStream, pool, 0).address;
  CHECK(block == kArea);  // the default pool has not been mentioned
  REQUIRE(device.destroy_pool(pool, 0).status == Status::Ok);
  CHECK(device.destroy_pool(pool, 0).status == Status::InvalidHandle);
  CHECK(device.pool(pool) == nullptr);
  CHECK(device.allocate_async(1, kLegacyStream, pool, 0).status == Status::InvalidHandle);
  CHECK(device.used_bytes() == 32 * kMiB);
  CHECK(device.find(block + 999).kind == MemoryKind::Pool);
  CHECK(device.deallocate_async(block, kLegacyStream, 0).work.chunks_returned == 1);
  CHECK(device.used_bytes() == 0);
  CHECK(device.create_pool(0).status == Status::Ok);
  CHECK(device.destroy_pool(kDefaultPool, 0).status == Status::InvalidHandle);
}

TEST_CASE("a destroyed stream's blocks can still be used") {
  Device device(plain());
  device.pool(kDefaultPool)->set_release_threshold(kKeep);
  const StreamId stream = add_stream(device);
  const std::uint64_t block = device.allocate_async(32 * kMiB, stream, 0, 0).address;
  REQUIRE(device.deallocate_async(block, stream, 0).status == Status::Ok);
  REQUIRE(device.destroy_stream(stream, 0).status == Status::Ok);
  CHECK(device.allocate_async(1, stream, 0, 0).status == Status::InvalidHandle);
  CHECK(device.allocate_async(32 * kMiB, kLegacyStream, 0, 0).address == block);
  CHECK(add_stream(device) == stream);  // nothing refers to the id any more
}

TEST_CASE("the legacy stream takes a blocking stream's pending block, and not another's") {
  const bool blocking = GENERATE(true, false);
  Device device(plain());
  MemoryPool& pool = *device.pool(kDefaultPool);
  pool.set_release_threshold(kKeep);
  pool.set_allow_opportunistic(false);
  const StreamId stream =
      device.create_stream(blocking ? StreamKind::Blocking : StreamKind::NonBlocking, 0).stream;
  const std::uint64_t block = device.allocate_async(32 * kMiB, stream, 0, 0).address;
  REQUIRE(device.deallocate_async(block, stream, 0).status == Status::Ok);
  const std::uint64_t next = device.allocate_async(32 * kMiB, kLegacyStream, 0, 0).address;
  CHECK(next == (blocking ? block : kArea + 32 * kMiB));
}

TEST_CASE("a synchronised event frees what came before it only") {
  Device device(plain());
  StreamOrder& order = device.streams();
  const StreamId stream = add_stream(device);
  const std::uint64_t first = device.allocate_async(32 * kMiB, stream, 0, 0).address;
  // Neighbours would merge, and only the later free would count.
  const std::uint64_t between = device.allocate_async(32 * kMiB, stream, 0, 0).address;
  const std::uint64_t second = device.allocate_async(32 * kMiB, stream, 0, 0).address;
  REQUIRE(device.deallocate_async(first, stream, 0).status == Status::Ok);
  const EventId event = order.create_event();
  REQUIRE(order.record(event, stream, 0) == Status::Ok);
  order.launch(stream, 500, 0);
  REQUIRE(device.deallocate_async(second, stream, 0).status == Status::Ok);
  CHECK(device.synchronize_event(event, 0).work.chunks_returned == 1);
  const Outcome outcome = device.synchronize_stream(stream, 0);
  CHECK(outcome.work.chunks_returned == 1);
  CHECK(outcome.work.host_wait_until_ns == 500);
  CHECK(device.find(between).kind == MemoryKind::Pool);
  CHECK(device.used_bytes() == 32 * kMiB);
}

}  // namespace
}  // namespace simcuda
