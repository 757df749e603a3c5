// Rules 1, 2, 3, 6 and 10: what a backend hands out, and that it comes back. Checks; times nothing.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "tests/allocators/conformance.h"
#include "tests/allocators/owned_blocks.h"
#include "tests/support/device_probe.h"

namespace allocmark::rules {
namespace {

constexpr std::array<std::uint64_t, 14> kSizes = {
    1, 2, 3, 31, 255, 256, 257, 4095, 65537, kMiB, kMiB + 1, 3 * kMiB, 10 * kMiB, 21 * kMiB + 5};

Contents contents_of(const Subject& subject) {
  return subject.capabilities.real_memory ? Contents::Checked : Contents::Unchecked;
}

// Gives `backend` everything back, waits, and lets it return what it caches.
void free_all_and_trim(Backend& backend, OwnedBlocks& owned) {
  owned.free_all();
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  backend.trim();
}

}  // namespace

void pointers_are_aligned(const Subject& subject) {
  const Stream stream;
  const auto backend = subject.make();
  OwnedBlocks owned(*backend, Contents::Unchecked);
  const std::uint64_t alignment_bytes = subject.capabilities.alignment_bytes;
  for (int round = 0; round < 3; ++round) {
    for (const std::uint64_t size_bytes : kSizes) {
      expect(owned.allocate(size_bytes, stream.get()) == AllocateStatus::Ok,
             "out of memory on an empty device");
      const void* pointer = owned.blocks().back().pointer;
      expect(reinterpret_cast<std::uintptr_t>(pointer) % alignment_bytes == 0,
             fmt::format("{} bytes at {}: not a multiple of {}", size_bytes, pointer,
                         alignment_bytes));
    }
  }
  owned.free_all();
}

void device_reaches_every_byte(const Subject& subject) {
  const Stream stream;
  const auto backend = subject.make();
  OwnedBlocks owned(*backend, Contents::Unchecked);
  for (const std::uint64_t size_bytes : kSizes) {
    expect(owned.allocate(size_bytes, stream.get()) == AllocateStatus::Ok,
           "out of memory on an empty device");
    char* const begin = static_cast<char*>(owned.blocks().back().pointer);
    for (char* byte : {begin, begin + size_bytes - 1}) {
      unsigned char found = 0;
      ALLOCMARK_CUDA_CHECK(cudaMemsetAsync(byte, 0xA5, 1, stream.get()));
      ALLOCMARK_CUDA_CHECK(cudaMemcpyAsync(&found, byte, 1, cudaMemcpyDeviceToHost, stream.get()));
      ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream.get()));
      expect(found == 0xA5,
             fmt::format("a byte of a block of {} bytes reads back as {:#x}", size_bytes, found));
    }
  }
  owned.free_all();
}

void live_blocks_never_overlap(const Subject& subject) {
  const std::array<Stream, 3> streams;
  const auto backend = subject.make();
  OwnedBlocks owned(*backend, Contents::Unchecked);
  run_trace(owned, {.seed = test_seed(),
                    .step_count = 4000,
                    .size_bytes_max = 24 * kMiB,
                    .live_bytes_max = 300 * kMiB,
                    .streams = {streams[0].get(), streams[1].get(), streams[2].get()}});
  owned.free_all();
}

void contents_survive(const Subject& subject) {
  const std::array<Stream, 3> streams;
  const auto backend = subject.make();
  OwnedBlocks owned(*backend, Contents::Checked);
  run_trace(owned, {.seed = test_seed(),
                    .step_count = 800,
                    .size_bytes_max = 24 * kMiB,
                    .live_bytes_max = 300 * kMiB,
                    .streams = {streams[0].get(), streams[1].get(), streams[2].get()}});
  owned.check_contents();
  owned.free_all();
}

void size_zero_can_be_given_back(const Subject& subject) {
  const Stream stream;
  const auto backend = subject.make();
  std::vector<void*> nothing;
  for (int round = 0; round < 100; ++round) {
    const AllocateResult result = backend->allocate(0, stream.get());
    expect(result.status == AllocateStatus::Ok, "size 0 was refused");
    nothing.push_back(result.pointer);
  }
  std::vector<void*> distinct = nothing;
  std::erase(distinct, nullptr);
  std::sort(distinct.begin(), distinct.end());
  expect(std::adjacent_find(distinct.begin(), distinct.end()) == distinct.end(),
         "two live blocks of size 0 have the same address, which is not null");
  for (void* pointer : nothing) {
    backend->deallocate(pointer, 0, stream.get());
  }
  OwnedBlocks owned(*backend, contents_of(subject));
  expect(owned.allocate(kMiB, stream.get()) == AllocateStatus::Ok,
         "size 0 left the backend unusable");
  owned.free_all();
}

void same_trace_fits_again(const Subject& subject) {
  const TakenMemory taken(2 * kGiB);
  const Stream stream;
  const auto backend = subject.make();
  OwnedBlocks owned(*backend, Contents::Unchecked);
  const TraceShape shape{.seed = test_seed(),
                         .step_count = 4000,
                         .size_bytes_max = 24 * kMiB,
                         .live_bytes_max = 200 * kMiB,
                         .streams = {stream.get()}};
  for (int round = 0; round < 4; ++round) {
    for (const AllocateStatus status : run_trace(owned, shape)) {
      expect(status == AllocateStatus::Ok,
             fmt::format("200 MiB live do not fit into 2 GiB in round {}", round + 1));
    }
    owned.free_all();
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  }
}

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

void trim_reaches_the_floor(const Subject& subject) {
  const Stream stream;
  const auto backend = subject.make();
  const std::uint64_t floor_bytes = used_bytes();
  OwnedBlocks owned(*backend, Contents::Unchecked);
  run_trace(owned, {.seed = test_seed(),
                    .step_count = 500,
                    .size_bytes_max = 24 * kMiB,
                    .live_bytes_max = 300 * kMiB,
                    .streams = {stream.get()}});
  free_all_and_trim(*backend, owned);
  const std::uint64_t after_bytes = used_bytes();
  expect(after_bytes <= floor_bytes + used_bytes_tolerance(),
         fmt::format("{} bytes in use after trim, {} before the first request", after_bytes,
                     floor_bytes));
  const MemoryStats stats = backend->stats(stream.get());
  expect(stats.reserved_bytes.value_or(0) == 0,
         fmt::format("reserved_bytes is {} after trim", *stats.reserved_bytes));
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
