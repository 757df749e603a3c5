// Private pools in the traces of snapshots: which requests go to one, when its use ends, and what
// the history says of pools that it does not name.
#include <cstdint>
#include <memory>
#include <string>

#include "tests/catch.h"
#include "workloads/import/memory_snapshot.h"
#include "workloads/import/snapshot_history.h"
#include "workloads/import/snapshot_pools.h"
#include "workloads/import/snapshot_restores.h"
#include "workloads/import/snapshot_source.h"
#include "workloads/trace/trace_row.h"

namespace allocmark {
namespace {

// A history of one device, with the memory that its pools have.
struct PoolHistory {
  MemorySnapshot snapshot;
  PoolHistory() { snapshot.pools = {{0, 0}, {0, 1}}; }
  void add(SnapshotAction action, std::uint64_t address, std::uint64_t size_bytes,
           std::uint32_t pool, std::uint32_t stream = 0) {
    SnapshotEntry entry;
    entry.stream = stream & 4095;
    entry.action = action;
    entry.address = address;
    entry.size_bytes = size_bytes & ((std::uint64_t{1} << 50) - 1);
    entry.has_pool = 1;
    entry.pool = pool & 4095;
    snapshot.entries.push_back(entry);
  }
  void free(std::uint64_t address, std::uint64_t size_bytes, std::uint32_t pool) {
    add(SnapshotAction::FreeRequested, address, size_bytes, pool);
    add(SnapshotAction::FreeCompleted, address, size_bytes, pool);
  }
  // Its trace, without the first mark.
  std::string rows() {
    snapshot.traces = {{{.first = 0, .count = snapshot.entries.size()}}};
    const DeviceHistory history(snapshot, 0);
    const std::unique_ptr<EventSource> source = snapshot_events(history, final_pools(history));
    std::string text;
    for (auto batch = source->next(); !batch.empty(); batch = source->next()) {
      for (const Event& event : batch) {
        if (event.kind != EventKind::Mark) append_trace_row(event, "", false, &text);
      }
    }
    return text;
  }
};

constexpr std::uint64_t kMiBytes = std::uint64_t{1} << 20;

}  // namespace

TEST_CASE("requests of a private pool go to it in the trace, until its memory goes back") {
  PoolHistory job;
  job.add(SnapshotAction::SegmentAlloc, 0x10000000, 20 * kMiBytes, 0);
  job.add(SnapshotAction::Alloc, 0x10000000, 3 * kMiBytes, 0);
  job.add(SnapshotAction::SegmentAlloc, 0x20000000, 20 * kMiBytes, 1);
  job.add(SnapshotAction::Alloc, 0x20000000, 4 * kMiBytes, 1);
  job.add(SnapshotAction::Alloc, 0x20400000, 5 * kMiBytes, 1);
  job.add(SnapshotAction::Alloc, 0x10300000, 1 * kMiBytes, 0);
  job.free(0x20000000, 4 * kMiBytes, 1);
  job.free(0x20400000, 5 * kMiBytes, 1);
  job.add(SnapshotAction::SegmentFree, 0x20000000, 20 * kMiBytes, 1);
  job.free(0x10000000, 3 * kMiBytes, 0);
  CHECK(job.rows() ==
        "alloc,1,3145728,0\n"
        "pool_create,1,0,0\npool_begin,1,1,0\nalloc,2,4194304,0\nalloc,3,5242880,0\n"
        "pool_end,1,0,0\npool_release,1,0,0\nalloc,4,1048576,0\nfree,2,0,0\nfree,3,0,0\n"
        "pool_release,1,0,0\nempty_cache,1,0,0\nfree,1,0,0\n");
}

TEST_CASE("requests of a pool that a graph made are a capture") {
  PoolHistory job;
  job.snapshot.pools = {{0, 0}, {1, 0}, {0, 1}};
  job.snapshot.streams = {0, 0x77};
  job.add(SnapshotAction::SegmentAlloc, 0x10000000, 20 * kMiBytes, 1, 1);
  job.add(SnapshotAction::Alloc, 0x10000000, 3 * kMiBytes, 1, 1);
  job.add(SnapshotAction::SegmentAlloc, 0x30000000, 2 * kMiBytes, 0);
  job.add(SnapshotAction::SegmentAlloc, 0x20000000, 20 * kMiBytes, 2, 1);
  job.add(SnapshotAction::Alloc, 0x20000000, 4 * kMiBytes, 2, 1);
  job.add(SnapshotAction::Alloc, 0x10300000, 1 * kMiBytes, 1, 1);
  // Nothing goes back in a capture.
  job.add(SnapshotAction::SegmentFree, 0x30000000, 2 * kMiBytes, 0);
  job.add(SnapshotAction::SegmentAlloc, 0x40000000, 2 * kMiBytes, 1, 1);
  job.add(SnapshotAction::Alloc, 0x40000000, 512, 1, 1);
  // The default stream cannot be captured.
  job.add(SnapshotAction::Alloc, 0x40000200, 512, 1, 0);
  CHECK(job.rows() ==
        "pool_create,1,0,0\npool_begin,1,1,0\ncapture_begin,1,0,1\nalloc,1,3145728,1\n"
        "capture_end,1,0,1\npool_end,1,0,0\npool_release,1,0,0\n"
        "pool_create,2,0,0\npool_begin,2,1,0\nalloc,2,4194304,1\n"
        "pool_end,2,0,0\npool_release,2,0,0\n"
        "pool_begin,1,1,0\ncapture_begin,1,0,1\nalloc,3,1048576,1\n"
        "capture_end,1,0,1\npool_end,1,0,0\npool_release,1,0,0\nempty_cache,0,0,0\n"
        "pool_begin,1,1,0\ncapture_begin,1,0,1\nalloc,4,512,1\n"
        "capture_end,1,0,1\npool_end,1,0,0\npool_release,1,0,0\n"
        "pool_begin,1,1,0\nalloc,5,512,0\npool_end,1,0,0\npool_release,1,0,0\n");
}

TEST_CASE(
    "what went back although the device had room for the request was given back by the program") {
  for (const bool had_room : {false, true}) {
    PoolHistory job;
    // At most as much was ever reserved as the request needs beside what went back.
    const std::uint64_t first_bytes = (had_room ? 22 : 20) * kMiBytes;
    job.add(SnapshotAction::SegmentAlloc, 0x10000000, first_bytes, 0);
    job.add(SnapshotAction::Alloc, 0x10000000, 3 * kMiBytes, 0);
    job.free(0x10000000, 3 * kMiBytes, 0);
    job.add(SnapshotAction::SegmentFree, 0x10000000, first_bytes, 0);
    job.add(SnapshotAction::SegmentAlloc, 0x20000000, 20 * kMiBytes, 0);
    job.add(SnapshotAction::Alloc, 0x20000000, 4 * kMiBytes, 0);
    job.free(0x20000000, 4 * kMiBytes, 0);
    job.add(SnapshotAction::SegmentFree, 0x20000000, 20 * kMiBytes, 0);
    job.add(SnapshotAction::SegmentAlloc, 0x30000000, 2 * kMiBytes, 0);
    job.add(SnapshotAction::Alloc, 0x30000000, 512, 0);
    CHECK(job.rows() ==
          std::string("alloc,1,3145728,0\nfree,1,0,0\nalloc,2,4194304,0\nfree,2,0,0\n") +
              (had_room ? "empty_cache,0,0,0\n" : "") + "alloc,3,512,0\n");
  }
}

TEST_CASE("a pool that is asked again after its memory went back is a new one") {
  PoolHistory job;
  for (int i = 0; i < 2; ++i) {
    job.add(SnapshotAction::SegmentAlloc, 0x20000000, 20 * kMiBytes, 1);
    job.add(SnapshotAction::Alloc, 0x20000000, 4 * kMiBytes, 1);
    job.free(0x20000000, 4 * kMiBytes, 1);
    job.add(SnapshotAction::SegmentFree, 0x20000000, 20 * kMiBytes, 1);
    job.add(SnapshotAction::SegmentAlloc, 0x10000000 + 0x4000000u * static_cast<unsigned>(i),
            20 * kMiBytes, 0);
    job.add(SnapshotAction::Alloc, 0x10000000 + 0x4000000u * static_cast<unsigned>(i), 3 * kMiBytes,
            0);
  }
  // The second time it may have been for the common request, whose memory is taken next. The first
  // time the device had room for both.
  CHECK(job.rows() ==
        "pool_create,1,0,0\npool_begin,1,1,0\nalloc,1,4194304,0\nfree,1,0,0\n"
        "pool_end,1,0,0\npool_release,1,0,0\npool_release,1,0,0\nempty_cache,1,0,0\n"
        "alloc,2,3145728,0\n"
        "pool_create,2,0,0\npool_begin,2,1,0\nalloc,3,4194304,0\nfree,3,0,0\n"
        "pool_end,2,0,0\npool_release,2,0,0\npool_release,2,0,0\nalloc,4,3145728,0\n");
}

TEST_CASE("what puts a pool back as it was at a checkpoint is no request") {
  PoolHistory job;
  const std::uint64_t at = 0x20000000;
  job.add(SnapshotAction::SegmentAlloc, at, 2 * kMiBytes, 1);
  job.add(SnapshotAction::Alloc, at, 4096, 1);
  job.free(at, 4096, 1);
  // Every block of the segment; no request of the first one's size is served by such a segment.
  job.add(SnapshotAction::Alloc, at, 1052672, 1);
  job.add(SnapshotAction::Alloc, at + 1052672, 4096, 1);
  job.add(SnapshotAction::Alloc, at + 1056768, 2 * kMiBytes - 1056768, 1);
  job.free(at, 1052672, 1);
  job.free(at + 1056768, 2 * kMiBytes - 1056768, 1);
  job.free(at + 1052672, 4096, 1);
  CHECK(job.rows() ==
        "pool_create,1,0,0\npool_begin,1,1,0\nalloc,1,4096,0\nfree,1,0,0\n"
        "alloc,2,4096,0\nfree,2,0,0\npool_end,1,0,0\npool_release,1,0,0\n");
  const DeviceHistory history(job.snapshot, 0);
  const Restores restores = find_restores(history, final_pools(history));
  CHECK(restores.count == 1);
  CHECK(restores.blocks.size() == 3);
  REQUIRE(restores.find(5) != nullptr);
  CHECK(*restores.find(5));
  CHECK_FALSE(*restores.find(4));
  CHECK(restores.find(1) == nullptr);
}

TEST_CASE("memory that takes the place of a segment that went back is of its own pool") {
  PoolHistory job;
  PoolsOfGrowth pools{{3, 1}};
  job.add(SnapshotAction::SegmentAlloc, 0x21000000, 20 * kMiBytes, 0);
  job.add(SnapshotAction::Alloc, 0x21000000, 3 * kMiBytes, 0);
  job.add(SnapshotAction::SegmentFree, 0x21000000, 20 * kMiBytes, 0);
  job.add(SnapshotAction::SegmentAlloc, 0x20000000, 40 * kMiBytes, 1);
  job.add(SnapshotAction::Alloc, 0x20000000, 20 * kMiBytes, 1);
  for (SnapshotEntry& entry : job.snapshot.entries) entry.has_pool = 0;
  job.snapshot.traces = {{{.first = 0, .count = job.snapshot.entries.size()}}};
  const DeviceHistory history(job.snapshot, 0);
  PoolAreas areas(history, pools);
  static_cast<void>(areas.take(0, 1));
  CHECK(areas.pool_at(0x21000000) == 0);
  static_cast<void>(areas.take(2, 4));
  CHECK(areas.pool_at(0x21000000) == 1);
  CHECK(areas.pool_at(0x22000000) == 1);
}

// Two MemPools that are gone at the end, of which PyTorch 2.11 says nothing but addresses.
TEST_CASE("expandable segments that were there at one time are of different pools") {
  PoolHistory job;
  job.snapshot.pools = {{0, 0}};
  const auto map = [&](std::uint64_t address) {
    job.add(SnapshotAction::SegmentMap, address, 20 * kMiBytes, 0);
    job.add(SnapshotAction::Alloc, address, 15 * kMiBytes, 0);
  };
  map(0x1000000000);
  map(0x2000000000);
  map(0x2001400000);
  map(0x1001400000);
  job.add(SnapshotAction::SegmentUnmap, 0x2000000000, 40 * kMiBytes, 0);
  map(0x3000000000);
  job.add(SnapshotAction::SegmentUnmap, 0x3000000000, 20 * kMiBytes, 0);
  for (SnapshotEntry& entry : job.snapshot.entries) entry.has_pool = 0;
  job.snapshot.segments = {{.address = 0x1000000000,
                            .size_bytes = 40 * kMiBytes,
                            .is_large = true,
                            .is_expandable = true}};
  job.snapshot.traces = {{{.first = 0, .count = job.snapshot.entries.size()}}};
  const DeviceHistory history(job.snapshot, 0);
  CHECK(final_pools(history) == PoolsOfGrowth{{2, 1}, {4, 1}, {9, 2}});
}

}  // namespace allocmark
