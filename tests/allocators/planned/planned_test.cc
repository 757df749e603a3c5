// Goal: the backend follows its plan, falls back where it has none, and never hands out a byte
// twice. Method: programs of steps on the simulated device (or a GPU), with literals; random ones
// whose owner looks at every block.
#include "allocators/registry.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "tests/allocators/owned_blocks.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

std::unique_ptr<Backend> make_planned(const std::string& conf = "",
                                      std::uint64_t memory_limit_bytes = 0) {
  return find_backend("planned").make({.conf = conf, .memory_limit_bytes = memory_limit_bytes});
}

std::int64_t counter(const Backend& backend, const std::string& name) {
  for (const NamedCounter& each : backend.counters()) {
    if (each.name == name) return each.value;
  }
  return -1;
}

// Two large blocks after each other and one beside both.
std::vector<void*> run_step(Backend& backend, std::uint64_t first_bytes = 40 * kMiB) {
  backend.begin_step();
  std::vector<void*> places;
  const auto take = [&](std::uint64_t size_bytes) {
    const AllocateResult result = backend.allocate(size_bytes, nullptr);
    REQUIRE(result.status == AllocateStatus::Ok);
    places.push_back(result.pointer);
    return result.pointer;
  };
  void* const beside = take(10 * kMiB);
  void* const first = take(first_bytes);
  backend.deallocate(first, first_bytes, nullptr);
  void* const second = take(60 * kMiB);
  backend.deallocate(second, 60 * kMiB, nullptr);
  backend.deallocate(beside, 10 * kMiB, nullptr);
  return places;
}

TEST_CASE("steps after the profile lie where the plan says, on one reservation") {
  const auto backend = make_planned("profile_steps:1");
  run_step(*backend);
  CHECK(counter(*backend, "plan_bytes") == 0);
  const std::vector<void*> places = run_step(*backend);
  CHECK(counter(*backend, "plan_bytes") == 70 * kMiB);
  CHECK(counter(*backend, "plan_requests") == 3);
  CHECK(counter(*backend, "plan_placed") == 3);
  CHECK(run_step(*backend) == places);
  CHECK(counter(*backend, "plan_hits") == 6);
  CHECK(counter(*backend, "plan_misses") == 0);
  CHECK(counter(*backend, "planned_reserved_bytes_peak") == 70 * kMiB);
  CHECK(backend->totals().reserved_bytes == 70 * kMiB);
  REQUIRE(backend->segments().size() == 1);
  CHECK(backend->segments()[0].size_bytes == 70 * kMiB);
  backend->trim();
  CHECK(backend->totals().reserved_bytes == 0);
  CHECK(run_step(*backend).size() == 3);
  CHECK(counter(*backend, "plan_hits") == 9);
}

TEST_CASE("requests that the plan does not know are misses, in a hole or with caching") {
  const auto backend = make_planned("profile_steps:1");
  run_step(*backend);
  run_step(*backend, 50 * kMiB);  // of 40 planned; 60 of the rest of the step leave no hole
  CHECK(counter(*backend, "plan_misses") == 1);
  CHECK(counter(*backend, "plan_misses_in_holes") == 0);
  CHECK(counter(*backend, "plan_hits") == 2);
  CHECK(backend->totals().allocated_bytes == 0);
  run_step(*backend);
  // All of the step is over, so that the whole reservation is a hole.
  const AllocateResult late = backend->allocate(65 * kMiB, nullptr);
  REQUIRE(late.status == AllocateStatus::Ok);
  CHECK(counter(*backend, "plan_misses_in_holes") == 1);
  // It stays, and is in the way of the next step: those are misses as well.
  run_step(*backend);
  CHECK(counter(*backend, "plan_misses") == 5);
  backend->deallocate(late.pointer, 65 * kMiB, nullptr);
  run_step(*backend);
  CHECK(counter(*backend, "plan_misses") == 5);
}

TEST_CASE("a plan that does not fit leaves everything to caching") {
  const auto backend = make_planned("profile_steps:1", 100 * kMiB);
  run_step(*backend);
  const AllocateResult kept = backend->allocate(50 * kMiB, nullptr);
  REQUIRE(kept.status == AllocateStatus::Ok);
  backend->begin_step();
  CHECK(counter(*backend, "plan_refusals") == 1);
  const AllocateResult other = backend->allocate(40 * kMiB, nullptr);
  REQUIRE(other.status == AllocateStatus::Ok);
  CHECK(counter(*backend, "plan_misses") == 1);
  backend->deallocate(other.pointer, 40 * kMiB, nullptr);
  backend->deallocate(kept.pointer, 50 * kMiB, nullptr);
  run_step(*backend);
  CHECK(counter(*backend, "plan_refusals") == 1);
  CHECK(counter(*backend, "plan_hits") == 3);
  // What the reservation has, the rest cannot have.
  CHECK(backend->allocate(80 * kMiB, nullptr).status == AllocateStatus::OutOfMemory);
}

TEST_CASE("a program without steps is served as by caching") {
  const auto backend = make_planned();
  const auto caching = find_backend("caching").make({});
  for (const std::uint64_t size_bytes : {512 * kKiB, 3 * kMiB, 30 * kMiB}) {
    REQUIRE(backend->allocate(size_bytes, nullptr).status == AllocateStatus::Ok);
    REQUIRE(caching->allocate(size_bytes, nullptr).status == AllocateStatus::Ok);
    CHECK(backend->totals().reserved_bytes == caching->totals().reserved_bytes);
  }
}

TEST_CASE("bytes are handed out once, whatever a program does in its steps") {
  cudaStream_t side = nullptr;
  REQUIRE(cudaStreamCreate(&side) == cudaSuccess);
  for (std::uint64_t seed = test_seed(); seed < test_seed() + 20; ++seed) {
    CAPTURE(seed);
    const auto backend = make_planned(seed % 2 == 0 ? "" : "profile_steps:1");
    OwnedBlocks owned(*backend, Contents::Checked);
    for (int step = 0; step < 8; ++step) {
      backend->begin_step();
      // The same requests in each step, and sometimes others.
      Random random(seed);
      Random other(seed * 100 + static_cast<std::uint64_t>(step));
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t planned_bytes = random_size_bytes(random, 4 * kMiB);
        const bool strays = other.below(20) == 0;
        const std::uint64_t size_bytes =
            strays ? random_size_bytes(other, 4 * kMiB) : planned_bytes;
        REQUIRE(owned.allocate(size_bytes, i % 5 == 0 ? side : nullptr) == AllocateStatus::Ok);
        while (owned.blocks().size() > 30 + (strays ? 5 : 0)) owned.free(random.below(30));
      }
      if (step == 5) backend->trim();
    }
    CHECK(counter(*backend, "plan_hits") > 0);
    CHECK(counter(*backend, "plan_misses") > 0);
    owned.free_all();
    CHECK(backend->totals().allocated_bytes == 0);
  }
  REQUIRE(cudaStreamDestroy(side) == cudaSuccess);
}

}  // namespace
}  // namespace allocmark
