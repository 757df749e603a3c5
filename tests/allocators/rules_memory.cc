// What a backend counts, and that it answers alike twice. Checks; times nothing.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "tests/allocators/conformance.h"
#include "tests/allocators/owned_blocks.h"
#include "tests/support/device_probe.h"

namespace allocmark::rules {
namespace {

// Where counters have PyTorch's names, totals() is what they say.
void expect_totals_as_counted(const Backend& backend) {
  const MemoryStats totals = backend.totals();
  for (const NamedCounter& counter : backend.counters()) {
    const auto expect_same = [&](std::string_view name, std::optional<std::uint64_t> value) {
      if (counter.name != name || !value) return;
      expect(*value == static_cast<std::uint64_t>(counter.value),
             fmt::format("{} is {}, and totals() says {}", name, counter.value, *value));
    };
    expect_same("allocated_bytes.all.current", totals.allocated_bytes);
    expect_same("active_bytes.all.current", totals.active_bytes);
    expect_same("reserved_bytes.all.current", totals.reserved_bytes);
    expect_same("num_device_alloc", totals.device_allocate_count);
    expect_same("num_device_free", totals.device_free_count);
    expect_same("num_alloc_retries", totals.retry_count);
    expect_same("num_sync_all_streams", totals.synchronize_all_count);
  }
}

}  // namespace

void blocks_without_size_are_apart(const Subject& subject) {
  const Stream stream;
  const auto backend = subject.make();
  std::vector<void*> blocks;
  std::set<void*> places;
  for (int round = 0; round < 100; ++round) {
    void* const place = backend->allocate(0, stream.get()).pointer;
    expect(place == nullptr || places.insert(place).second,
           "two live blocks of size 0 have the same address, which is not null");
    blocks.push_back(place);
  }
  for (void* const block : blocks) backend->deallocate(block, 0, stream.get());
}

void reserved_covers_live(const Subject& subject) {
  const Stream stream;
  const auto backend = subject.make();
  OwnedBlocks owned(*backend, Contents::Unchecked);
  const TraceShape shape{.seed = test_seed(),
                         .step_count = 1,
                         .size_bytes_max = 24 * kMiB,
                         .live_bytes_max = 200 * kMiB,
                         .streams = {stream.get()}};
  for (std::uint64_t step = 0; step < 500; ++step) {
    TraceShape step_shape = shape;
    step_shape.seed = shape.seed + step;
    run_trace(owned, step_shape);
    const MemoryStats stats = backend->stats(stream.get());
    expect(stats.reserved_bytes.has_value(),
           "reserved_bytes is not known, and must be of a real allocator");
    expect(*stats.reserved_bytes >= owned.live_bytes(),
           fmt::format("reserved {} < live {} bytes", *stats.reserved_bytes, owned.live_bytes()));
    expect(stats.allocated_bytes.value_or(owned.live_bytes()) >= owned.live_bytes(),
           fmt::format("allocated {} < live {} bytes", *stats.allocated_bytes, owned.live_bytes()));
    expect(used_bytes() + used_bytes_tolerance() >= owned.live_bytes(),
           "the device holds less than what is live");
    expect_totals_as_counted(*backend);
  }
  owned.free_all();
}

void statuses_repeat(const Subject& subject) {
  const TakenMemory taken(256 * kMiB);
  const Stream stream;
  std::array<std::vector<AllocateStatus>, 2> statuses;
  for (std::vector<AllocateStatus>& run : statuses) {
    const auto backend = subject.make();
    OwnedBlocks owned(*backend, Contents::Unchecked);
    run = run_trace(owned, {.seed = test_seed(),
                            .step_count = 2000,
                            .size_bytes_max = 60 * kMiB,
                            .live_bytes_max = 400 * kMiB,
                            .streams = {stream.get()}});
    owned.free_all();
  }
  // Otherwise the test shows nothing: 400 MiB do not fit into 256 MiB, and single requests do.
  expect(std::count(statuses[0].begin(), statuses[0].end(), AllocateStatus::OutOfMemory) > 0,
         "nothing failed");
  expect(std::count(statuses[0].begin(), statuses[0].end(), AllocateStatus::Ok) > 0,
         "everything failed");
  const auto difference =
      std::mismatch(statuses[0].begin(), statuses[0].end(), statuses[1].begin(), statuses[1].end());
  expect(difference.first == statuses[0].end() && difference.second == statuses[1].end(),
         fmt::format("allocation {} differs between two runs",
                     difference.first - statuses[0].begin()));
}

}  // namespace allocmark::rules
