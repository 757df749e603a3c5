// Goal: the backends of TensorFlow's, XLA's and ONNX Runtime's allocator take the memory that their
// config strings say, and tell what they hold. Method: on the simulated device, by its free memory.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

std::unique_ptr<Backend> make(std::string_view name, const std::string& conf,
                              std::uint64_t limit_bytes = 0) {
  return find_backend(name).make({.conf = conf, .memory_limit_bytes = limit_bytes});
}

std::uint64_t free_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  REQUIRE(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
  return free_bytes;
}

std::uint64_t reserved_after_a_block(Backend& backend) {
  const AllocateResult block = backend.allocate(1000, nullptr);
  REQUIRE(block.status == AllocateStatus::Ok);
  const std::uint64_t reserved_bytes = *backend.stats(nullptr).reserved_bytes;
  backend.deallocate(block.pointer, 1000, nullptr);
  return reserved_bytes;
}

}  // namespace

TEST_CASE("XLA takes three quarters of what is free, in whole pages, at the first request") {
  const std::uint64_t wanted = free_bytes() / 4 * 3 / (2 * kMiB) * (2 * kMiB);
  const auto backend = make("bfc@xla-2026-09", "");
  CHECK(*backend->stats(nullptr).reserved_bytes == 0);
  CHECK(*backend->stats(nullptr).limit_bytes == wanted);
  CHECK(reserved_after_a_block(*backend) == wanted);
}

TEST_CASE("a fraction and growth are what the config string says") {
  const std::uint64_t half = free_bytes() / 2 / (2 * kMiB) * (2 * kMiB);
  const auto backend = make("bfc@tf2.21", "fraction:0.5,allow_growth:True");
  CHECK(*backend->stats(nullptr).limit_bytes == half);
  CHECK(reserved_after_a_block(*backend) == 2 * kMiB);
  const auto grown = make("bfc@xla-2026-09", "preallocate:False");
  CHECK(reserved_after_a_block(*grown) == 2 * kMiB);
}

TEST_CASE("a memory limit takes the place of the fraction") {
  const auto backend = make("bfc@tf2.21", "", 64 * kMiB);
  CHECK(reserved_after_a_block(*backend) == 64 * kMiB);
  CHECK(backend->allocate(64 * kMiB + 1, nullptr).status == AllocateStatus::OutOfMemory);
}

TEST_CASE("ONNX Runtime's arena has no limit, or the one that its config string says") {
  const auto backend = make("bfc@ort1.32", "");
  CHECK_FALSE(backend->stats(nullptr).limit_bytes.has_value());
  CHECK(reserved_after_a_block(*backend) == kMiB);
  CHECK(*make("bfc@ort1.32", "limit_mb:12")->stats(nullptr).limit_bytes == 12 * kMiB);
  CHECK(*make("bfc@ort1.32", "fraction:0.5")->stats(nullptr).limit_bytes ==
        free_bytes() / 2 / (2 * kMiB) * (2 * kMiB));
  CHECK(*make("bfc@ort1.32", "limit_mb:12", 64 * kMiB)->stats(nullptr).limit_bytes == 64 * kMiB);
  CHECK(reserved_after_a_block(*make("bfc@ort1.32", "initial_chunk_mb:8")) == 8 * kMiB);
  CHECK(reserved_after_a_block(*make("bfc@ort1.32", "strategy:as_requested")) == 1024);
}

TEST_CASE("the keys of ONNX Runtime's arena say when regions grow, split and go back") {
  const auto backend =
      make("bfc@ort1.32", "initial_chunk_mb:4,initial_growth_mb:16,max_dead_mb:1,max_extend_mb:4");
  const AllocateResult first = backend->allocate(3 * kMiB, nullptr);
  CHECK(backend->segments()[0].blocks.size() == 2);  // a rest of 1 MiB is split off
  const AllocateResult second = backend->allocate(3 * kMiB, nullptr);
  CHECK(*backend->stats(nullptr).reserved_bytes == 8 * kMiB);  // 4 MiB again
  backend->deallocate(first.pointer, 3 * kMiB, nullptr);
  backend->deallocate(second.pointer, 3 * kMiB, nullptr);
  backend->trim();
  CHECK(*backend->stats(nullptr).reserved_bytes == 4 * kMiB);
  const AllocateResult third = backend->allocate(5 * kMiB, nullptr);
  CHECK(*backend->stats(nullptr).reserved_bytes == 20 * kMiB);
  backend->deallocate(third.pointer, 5 * kMiB, nullptr);
  const auto exact = make("bfc@ort1.32", "strategy:as_requested");
  CHECK(reserved_after_a_block(*exact) == 1024);
  exact->trim();
  CHECK(*exact->stats(nullptr).reserved_bytes == 0);
}

TEST_CASE("segments show the chunks of each region, and counters have TensorFlow's names") {
  const auto backend = make("bfc@tf2.21", "", 4 * kMiB);
  const AllocateResult block = backend->allocate(kMiB - 1, nullptr);
  const std::vector<MemorySegment> segments = backend->segments();
  REQUIRE(segments.size() == 1);
  REQUIRE(segments[0].blocks.size() == 2);
  CHECK(segments[0].blocks[0].size_bytes == kMiB);
  CHECK(segments[0].blocks[0].state == MemoryBlockState::Allocated);
  CHECK(segments[0].blocks[1].size_bytes == 3 * kMiB);
  CHECK(segments[0].allocated_bytes == kMiB);
  CHECK(backend->counters()[1].name == "bytes_in_use");
  CHECK(backend->counters()[1].value == static_cast<std::int64_t>(kMiB));
  backend->deallocate(block.pointer, kMiB - 1, nullptr);
}

TEST_CASE("a pointer given back twice is refused") {
  const auto backend = make("bfc@tf2.21", "", 4 * kMiB);
  const AllocateResult block = backend->allocate(256, nullptr);
  backend->deallocate(block.pointer, 256, nullptr);
  CHECK_THROWS_AS(backend->deallocate(block.pointer, 256, nullptr), EnvironmentError);
}

TEST_CASE("wrong values of their keys are refused with what is allowed") {
  const auto problem = [](std::string_view name, std::string_view conf) {
    const auto error = find_backend(name).check_conf(conf);
    return error ? to_string(*error) : "accepted";
  };
  const auto says = [](const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  says(problem("bfc@tf2.21", "fraction:0"), "above 0");
  says(problem("bfc@tf2.21", "fraction:1.5"), "at most 1");
  says(problem("bfc@tf2.21", "fraction:half"), "'half'");
  says(problem("bfc@tf2.21", "preallocate:True"), "preallocate");
  says(problem("bfc@xla-2026-09", "allow_growth:True"), "allow_growth");
  says(problem("bfc@xla-2026-09", "spatial_partitioning:True,preallocate:False"),
       "no spatial_partitioning:True");
  CHECK(problem("bfc@xla-2026-09", "fragmentation_fraction:0") == "accepted");
  says(problem("bfc@ort1.32", "limit_mb:12,fraction:0.5"), "limit_mb or fraction");
  says(problem("bfc@ort1.32", "initial_chunk_mb:2048"), "2047");
  says(problem("bfc@ort1.32", "max_dead_mb:0"), "1");
  says(problem("bfc@ort1.32", "strategy:same"), "as_requested");
}

}  // namespace allocmark
