// Goal: vmm_stitch serves large requests from scattered chunks, reuses what it mapped, moves chunks
// between streams only in stream order, and keeps small blocks in slabs. Method: short stories on
// the simulated device (or a GPU), with literals; the contract suite holds it against the rest.
#include "allocators/stitch/vmm_stitch.h"
#include "allocators/registry.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "allocators/cuda/cuda_driver.h"
#include "allocators/stitch/addresses.h"
#include "allocators/stitch/chunk_set.h"
#include "allocators/stitch/small_heap.h"
#include "base/bytes.h"
#include "base/random.h"
#include "tests/allocators/caching/fake_device.h"
#include "tests/catch.h"
#include "tests/support/device_probe.h"

namespace allocmark {
namespace {

std::unique_ptr<Backend> make_stitch(const std::string& conf = "",
                                     std::uint64_t memory_limit_bytes = 0) {
  return find_backend("vmm_stitch").make({.conf = conf, .memory_limit_bytes = memory_limit_bytes});
}

std::int64_t counter(const Backend& backend, const std::string& name) {
  for (const NamedCounter& each : backend.counters()) {
    if (each.name == name) return each.value;
  }
  return -1;
}

void* take(Backend& backend, std::uint64_t size_bytes, cudaStream_t stream = nullptr) {
  const AllocateResult result = backend.allocate(size_bytes, stream);
  CHECK(result.status == AllocateStatus::Ok);
  return result.pointer;
}

// Where a program of small and large blocks that come and go finds them, from its first block on;
// 1 where a request fails.
std::vector<std::int64_t> places_of_a_program(std::uint64_t seed) {
  const auto backend = make_stitch("mapped_percent_max:150", 96 * kMiB);
  Random random(seed);
  std::vector<std::pair<char*, std::uint64_t>> live;
  std::vector<std::int64_t> places;
  const char* first = nullptr;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() > 60 || (!live.empty() && random.below(5) < 2)) {
      const std::size_t at = random.below(live.size());
      backend->deallocate(live[at].first, live[at].second, nullptr);
      live[at] = live.back();
      live.pop_back();
      continue;
    }
    const std::uint64_t size_bytes =
        random.below(2) == 0 ? 1 + random.below(kMiB) : kMiB + random.below(16 * kMiB);
    const AllocateResult result = backend->allocate(size_bytes, nullptr);
    auto* const pointer = static_cast<char*>(result.pointer);
    if (first == nullptr) first = pointer;
    places.push_back(pointer == nullptr ? 1 : pointer - first);
    if (pointer != nullptr) live.emplace_back(pointer, size_bytes);
  }
  for (const auto& [pointer, size_bytes] : live) backend->deallocate(pointer, size_bytes, nullptr);
  return places;
}

}  // namespace

TEST_CASE("a large request is stitched from chunks that lie apart") {
  const auto backend = make_stitch("", 64 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(take(*backend, 8 * kMiB));
  CHECK(backend->stats(nullptr).reserved_bytes == 64 * kMiB);
  // Every second block is freed: 32 MiB are free, nowhere more than 8 MiB in one piece.
  for (int i = 0; i < 8; i += 2)
    backend->deallocate(blocks[static_cast<std::size_t>(i)], 8 * kMiB, nullptr);
  CHECK(backend->stats(nullptr).free_largest_bytes == 32 * kMiB);
  void* const stitched = take(*backend, 32 * kMiB);
  CHECK(backend->stats(nullptr).reserved_bytes == 64 * kMiB);
  CHECK(counter(*backend, "views_stitched") == 9);
  CHECK(counter(*backend, "chunks_created") == 32);
  // It is one range of memory of its own: what the others hold stays.
  CHECK(cudaMemset(blocks[1], 0x11, 8 * kMiB) == cudaSuccess);
  CHECK(cudaMemset(stitched, 0x22, 32 * kMiB) == cudaSuccess);
  unsigned char found = 0;
  CHECK(cudaMemcpy(&found, static_cast<char*>(blocks[1]) + 5 * kMiB, 1, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(found == 0x11);
  CHECK(cudaMemcpy(&found, static_cast<char*>(stitched) + 31 * kMiB, 1, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(found == 0x22);
  CHECK(backend->allocate(2 * kMiB, nullptr).status == AllocateStatus::OutOfMemory);
}

TEST_CASE("an earlier combination of chunks comes back without a driver call") {
  const auto backend = make_stitch();
  void* const first = take(*backend, 20 * kMiB);
  backend->deallocate(first, 20 * kMiB, nullptr);
  const std::int64_t stitched = counter(*backend, "views_stitched");
  CHECK(take(*backend, 20 * kMiB) == first);
  backend->deallocate(first, 20 * kMiB, nullptr);
  // A smaller request takes the front of the view, and the rest of its chunks stays usable.
  CHECK(take(*backend, 12 * kMiB) == first);
  CHECK(backend->stats(nullptr).free_largest_bytes == 8 * kMiB);
  CHECK(counter(*backend, "views_stitched") == stitched);
  void* const rest = take(*backend, 8 * kMiB);
  CHECK(rest != nullptr);
  CHECK(backend->stats(nullptr).reserved_bytes == 20 * kMiB);
  CHECK(counter(*backend, "views_stitched") == stitched + 1);
}

TEST_CASE("chunks of another stream are taken where memory is short, and their work waited for") {
  const auto backend = make_stitch("", 16 * kMiB);
  const Stream first;
  const Stream second;
  void* const block = take(*backend, 16 * kMiB, first.get());
  Gate gate;
  gate.hold(first.get());
  backend->deallocate(block, 16 * kMiB, first.get());
  CHECK(backend->stats(second.get()).free_other_streams_bytes == 16 * kMiB);
  void* const other = take(*backend, 10 * kMiB, second.get());
  CHECK(other != nullptr);
  CHECK(is_stalled(second.get()));
  CHECK(counter(*backend, "chunks_taken_from_other_streams") == 5);
  gate.open();
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("another stream's free chunks come before new ones where the config string says so") {
  for (const bool first : {false, true}) {
    const auto backend = make_stitch(first ? "other_streams:first" : "");
    const Stream stream;
    backend->deallocate(take(*backend, 16 * kMiB), 16 * kMiB, nullptr);
    void* const block = take(*backend, 16 * kMiB, stream.get());
    CHECK(backend->stats(nullptr).reserved_bytes == (first ? 16 * kMiB : 32 * kMiB));
    backend->deallocate(block, 16 * kMiB, stream.get());
  }
}

TEST_CASE("mapped addresses stay below the share of the config string") {
  const auto backend = make_stitch("mapped_percent_max:200");
  for (std::uint64_t count = 1; count <= 40; ++count) {
    // Growing requests, so that no idle view is large enough.
    backend->deallocate(take(*backend, count * 2 * kMiB), count * 2 * kMiB, nullptr);
    CHECK(counter(*backend, "mapped_bytes") <=
          2 * static_cast<std::int64_t>(*backend->stats(nullptr).reserved_bytes));
  }
  CHECK(counter(*backend, "views_dropped") > 0);
  CHECK(backend->stats(nullptr).reserved_bytes == 80 * kMiB);
}

TEST_CASE("small blocks share a slab, and a slab that is empty is a chunk again") {
  const auto backend = make_stitch();
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(take(*backend, 400 * kKiB));
  CHECK(backend->stats(nullptr).reserved_bytes == 2 * kMiB);
  CHECK(backend->stats(nullptr).allocated_bytes == 1600 * kKiB);
  for (void* block : blocks) backend->deallocate(block, 400 * kKiB, nullptr);
  CHECK(backend->stats(nullptr).free_largest_bytes == 2 * kMiB);
  CHECK(take(*backend, 2 * kMiB) == blocks[0]);
  CHECK(counter(*backend, "views_stitched") == 1);
}

TEST_CASE("the small heap fits best, cuts, and joins neighbours of one slab only") {
  stitch::SmallHeap heap;
  CHECK(!heap.take(512));
  heap.add_slab(0x10000, 4096);
  heap.add_slab(0x11000, 4096);  // right behind, and still apart
  CHECK(heap.take(4096) == 0x10000u);
  CHECK(heap.take(1024) == 0x11000u);
  CHECK(heap.take(1024) == 0x11400u);
  CHECK(heap.free_bytes() == 2048);
  CHECK(!heap.give(0x11000));
  CHECK(heap.free_bytes_largest() == 2048);
  CHECK(heap.take(512) == 0x11000u);  // the smaller of the two pieces that fit
  CHECK(!heap.give(0x11000));
  CHECK(heap.give(0x11400) == 0x11000u);
  CHECK(heap.give(0x10000) == 0x10000u);
  CHECK(heap.free_bytes() == 0);
}

// The driver puts ranges elsewhere in every process. Holes among its addresses do the same here.
TEST_CASE("no decision of vmm_stitch depends on where the driver puts its ranges") {
  const std::vector<std::int64_t> alone = places_of_a_program(7);
  CudaDriver driver(nullptr);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reserved;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t size_bytes = (1 + i * 7 % 11) * 2 * kMiB;
    reserved.emplace_back(driver.reserve_address(size_bytes), size_bytes);
  }
  for (std::size_t i = 0; i < reserved.size(); i += 2) {
    driver.free_address(reserved[i].first, reserved[i].second);
  }
  const std::vector<std::int64_t> among_holes = places_of_a_program(7);
  for (std::size_t i = 1; i < reserved.size(); i += 2) {
    driver.free_address(reserved[i].first, reserved[i].second);
  }
  CHECK((alone == among_holes));  // thousands of numbers: not to be printed
}

TEST_CASE("free chunks are a set in the order of their indexes") {
  Random random(3);
  stitch::ChunkSet chunks;
  std::set<std::uint32_t> wanted;
  for (int i = 0; i < 20'000; ++i) {
    const auto index = static_cast<std::uint32_t>(random.below(700));
    if (random.below(2) == 0) {
      chunks.insert(index);
      wanted.insert(index);
    } else {
      chunks.erase(index);
      wanted.erase(index);
    }
    REQUIRE(chunks.size() == wanted.size());
    if (wanted.empty()) continue;
    REQUIRE(chunks.first() == *wanted.begin());
    std::vector<std::uint32_t> first;
    const std::size_t count = 1 + random.below(wanted.size());
    chunks.each_of_first(count, [&](std::uint32_t each) { first.push_back(each); });
    REQUIRE(first == std::vector(wanted.begin(), std::next(wanted.begin(), count)));
  }
  chunks.erase(100'000);
  CHECK(chunks.size() == wanted.size());
}

TEST_CASE("addresses are given out in order, whatever the driver answers, and joined again") {
  caching::FakeDevice device(4 * kGiB, 4 * kGiB);
  {
    stitch::Addresses addresses(device, 16 * kMiB);
    const stitch::Place first = addresses.take(8 * kMiB);
    const stitch::Place second = addresses.take(8 * kMiB);
    const stitch::Place beyond = addresses.take(2 * kMiB);  // in a second region
    const stitch::Place large = addresses.take(64 * kMiB);  // in a region of its own size
    CHECK(second.order == first.order + 8 * kMiB);
    CHECK(second.address == first.address + 8 * kMiB);
    CHECK(beyond.order > second.order);
    CHECK(large.order > beyond.order);
    addresses.give(first, 8 * kMiB);
    CHECK(addresses.take(2 * kMiB).order == first.order);
    addresses.give({.address = first.address, .order = first.order}, 2 * kMiB);
    addresses.give(second, 8 * kMiB);
    CHECK(addresses.take(16 * kMiB).address == first.address);
    // A region's last place and the next one's first are no neighbours.
    addresses.give(beyond, 2 * kMiB);
    CHECK(addresses.take(16 * kMiB).order == beyond.order);
  }
  CHECK(device.is_clean());
}

TEST_CASE("vmm_stitch reads its keys") {
  CHECK(read_vmm_stitch_conf("").conf.chunk_bytes == 2 * kMiB);
  const ConfResult<stitch::RangesOptions> read =
      read_vmm_stitch_conf("chunk_mb:32,mapped_percent_max:150,other_streams:first");
  CHECK(!read.error);
  CHECK(read.conf.chunk_bytes == 32 * kMiB);
  CHECK(read.conf.mapped_percent_max == 150);
  CHECK(read.conf.takes_from_others_first);
  for (const char* bad : {"chunk_mb:3", "chunk_mb:1", "chunk_mb:1024", "mapped_percent_max:99",
                          "other_streams:never", "chunk:2"}) {
    INFO(bad);
    CHECK(read_vmm_stitch_conf(bad).error);
  }
}

}  // namespace allocmark
