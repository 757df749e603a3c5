// Memory of graphs: addresses that stay, chunks that graphs of one stream share, blocks that a
// launch leaves. Expected numbers follow from the rules in MODEL.md, not from a run.
#include "harness/simcuda/core/graph_memory.h"

#include <vector>

#include "harness/simcuda/core/device.h"
#include "harness/simcuda/core/device_config.h"
#include "tests/catch.h"
#include "tests/harness/simcuda/core/sizes.h"

namespace simcuda {
namespace {

struct Fixture {
  Device device{h200_config(StartState::Plain)};
  GraphMemory& memory = device.graph_memory();
  StreamId stream = device.streams().create_stream(StreamKind::NonBlocking);
  StreamId other = device.streams().create_stream(StreamKind::NonBlocking);

  Range block(ArenaId arena, std::uint64_t size_bytes, const std::vector<Range>& taken) {
    const auto address = memory.place(arena, size_bytes, taken);
    REQUIRE(address);
    return {*address, *address + size_bytes};
  }
  // A graph of one allocation, launched on a stream.
  void launch(ArenaId arena, Range range, StreamId on, std::uint64_t work_ns, bool frees) {
    REQUIRE(memory.map(arena, on, 0).status == Status::Ok);
    REQUIRE(memory.begin_block(arena, range));
    (void)device.streams().launch(on, work_ns, 0);
    if (frees) REQUIRE(memory.end_block(range.lo, on, 0));
    memory.ran(arena, on);
  }
};

}  // namespace

TEST_CASE("allocations of a graph share addresses only where one is freed before the other") {
  Fixture f;
  const ArenaId arena = f.memory.create_arena();
  const Range one = f.block(arena, 1000, {});
  const Range two = f.block(arena, 20 * kMiB, std::vector<Range>{one});
  CHECK(two.lo == one.lo + 1024);  // 512 B units of one chunk
  CHECK(f.block(arena, 20 * kMiB, std::vector<Range>{one}).lo == two.lo);
  const Range elsewhere = f.block(arena, 20 * kMiB, std::vector<Range>{one, two});
  CHECK(elsewhere.lo % kChunkBytes == 0);
  CHECK(elsewhere.lo != one.lo);
  CHECK(f.memory.planned_block(two.lo + 5).lo == two.lo);
  CHECK(f.memory.planned_block(one.lo + 1010).empty());
  CHECK_FALSE(f.memory.place(arena, ~std::uint64_t{0}, {}));
  CHECK_FALSE(f.memory.place(arena + 1, 512, {}));
}

TEST_CASE("memory comes with the first launch, stays until it is trimmed, and is shared") {
  Fixture f;
  const std::uint64_t free_before = f.device.free_bytes();
  const ArenaId one = f.memory.create_arena();
  const ArenaId two = f.memory.create_arena();
  const Range first = f.block(one, 256 * kMiB, {});
  const Range second = f.block(two, 100 * kMiB, {});
  CHECK(f.memory.usage().reserved_bytes == 0);
  f.launch(one, first, f.stream, 1000, /*frees=*/true);
  CHECK(f.memory.usage().used_bytes == 256 * kMiB);
  CHECK(free_before - f.device.free_bytes() == 256 * kMiB);
  // The second one runs behind the first: the same memory serves it.
  f.launch(two, second, f.stream, 1000, /*frees=*/true);
  CHECK(f.memory.usage().reserved_bytes == 256 * kMiB);
  // On another stream it may run beside the first.
  f.launch(two, second, f.other, 1000, /*frees=*/true);
  CHECK(f.memory.usage().reserved_bytes == 384 * kMiB);
  CHECK(f.memory.trim(0).work.chunks_returned == 0);  // both still run
  CHECK(f.memory.trim(2000).work.chunks_returned == 12);
  CHECK(f.memory.usage().reserved_bytes == 0);
  CHECK(f.memory.usage().reserved_bytes_high == 384 * kMiB);
  CHECK(f.device.free_bytes() == free_before);
  f.memory.reset_reserved_high();
  CHECK(f.memory.usage().reserved_bytes_high == 0);
}

TEST_CASE("a launch that finds its memory mapped maps nothing") {
  Fixture f;
  const ArenaId arena = f.memory.create_arena();
  const Range range = f.block(arena, 64 * kMiB, {});
  CHECK(f.memory.map(arena, f.stream, 0).work.chunks_mapped == 2);
  CHECK(f.memory.map(arena, f.stream, 0).work.chunks_mapped == 0);
  CHECK(f.memory.map(arena, f.other, 0).work.chunks_mapped == 2);
  CHECK(range.size_bytes() == 64 * kMiB);
}

TEST_CASE("a block that is not freed keeps its memory from other graphs and from a trim") {
  Fixture f;
  const ArenaId one = f.memory.create_arena();
  const ArenaId two = f.memory.create_arena();
  const Range first = f.block(one, 32 * kMiB, {});
  const Range second = f.block(two, 32 * kMiB, {});
  f.launch(one, first, f.stream, 0, /*frees=*/false);
  CHECK(f.device.find(first.lo + 7).kind == MemoryKind::Graph);
  CHECK_FALSE(f.memory.begin_block(one, first));
  f.launch(two, second, f.stream, 0, /*frees=*/true);
  CHECK(f.memory.usage().reserved_bytes == 64 * kMiB);
  CHECK(f.memory.trim(1).work.chunks_returned == 1);
  CHECK(f.memory.usage().used_bytes == 32 * kMiB);
  // It may be freed in a stream or at once, and only once.
  CHECK(f.device.deallocate_async(first.lo, f.other, 1).status == Status::Ok);
  CHECK(f.device.deallocate_async(first.lo, f.other, 1).status == Status::InvalidValue);
  CHECK(f.device.deallocate(first.lo, 1).status == Status::InvalidValue);
  CHECK(f.device.find(first.lo).kind == MemoryKind::None);
  f.launch(one, first, f.stream, 0, /*frees=*/false);
  CHECK(f.device.deallocate(first.lo, 1).status == Status::Ok);
}

TEST_CASE("addresses live as long as a holder or a block, then they are given again") {
  Fixture f;
  const ArenaId arena = f.memory.create_arena();
  const Range range = f.block(arena, 512, {});
  f.memory.hold(arena);
  f.memory.let_go(arena);
  f.launch(arena, range, f.stream, 0, /*frees=*/false);
  f.memory.unmap(arena);
  f.memory.let_go(arena);
  f.memory.let_go(arena);  // one too many
  CHECK(f.memory.holds(range.lo));
  CHECK(f.memory.end_block(range.lo));
  CHECK_FALSE(f.memory.holds(range.lo));
  CHECK(f.block(f.memory.create_arena(), 512, {}).lo == range.lo);
}

TEST_CASE("an allocation is freed by its own graph or by others, not by both") {
  Fixture f;
  const ArenaId arena = f.memory.create_arena();
  const Range own = f.block(arena, 512, {});
  CHECK(f.memory.plan_free(own.lo, arena));
  CHECK_FALSE(f.memory.plan_free(own.lo, arena));
  CHECK_FALSE(f.memory.plan_free(own.lo, 0));
  const Range foreign = f.block(arena, 512, std::vector<Range>{own});
  CHECK(f.memory.plan_free(foreign.lo, 0));
  CHECK_FALSE(f.memory.plan_free(foreign.lo, arena));
  CHECK_FALSE(f.memory.plan_free(foreign.lo + 8, 0));
  CHECK_FALSE(f.memory.plan_free(0x1234, 0));
}

TEST_CASE("too little memory fails the launch, and the next one that fits succeeds") {
  Device device(with_usable_bytes(h200_config(StartState::Plain), 256 * kMiB));
  GraphMemory& memory = device.graph_memory();
  const StreamId stream = device.streams().create_stream(StreamKind::NonBlocking);
  const ArenaId large = memory.create_arena();
  REQUIRE(memory.place(large, 512 * kMiB, {}));
  CHECK(memory.map(large, stream, 0).status == Status::OutOfMemory);
  memory.let_go(large);
  const ArenaId small = memory.create_arena();
  REQUIRE(memory.place(small, 64 * kMiB, {}));
  CHECK(memory.map(small, stream, 0).status == Status::Ok);
}

}  // namespace simcuda
