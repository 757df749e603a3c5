// What pinning is modelled to cost: shares that were measured on a card, between calls of one
// program.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/catch.h"
#include "tests/harness/simcuda/shim/control.h"

namespace {

constexpr std::size_t kMib = std::size_t{1} << 20;

// Modelled time of a call, the mean of several as draws differ.
double cost_of(const std::function<void()>& before, const std::function<void()>& call,
               const std::function<void()>& after) {
  constexpr int kCalls = 20;
  std::uint64_t sum_ns = 0;
  for (int i = 0; i < kCalls; ++i) {
    before();
    const std::uint64_t began_ns = SIMCU(simcu_thread_clock)()->modelled_ns;
    call();
    sum_ns += SIMCU(simcu_thread_clock)()->modelled_ns - began_ns;
    after();
  }
  return static_cast<double>(sum_ns) / kCalls;
}

double cost_of_alloc(std::size_t size_bytes) {
  void* block = nullptr;
  return cost_of([] {}, [&] { REQUIRE(cudaMallocHost(&block, size_bytes) == cudaSuccess); },
                 [&] { REQUIRE(cudaFreeHost(block) == cudaSuccess); });
}

double cost_of_register(bool is_touched) {
  std::vector<char*> blocks;  // each is new memory: what was pinned once has its pages
  const double cost = cost_of(
      [&] {
        blocks.push_back(new char[16 * kMib]);
        if (is_touched) std::memset(blocks.back(), 1, 16 * kMib);
      },
      [&] { REQUIRE(cudaHostRegister(blocks.back(), 16 * kMib, 0) == cudaSuccess); },
      [&] { REQUIRE(cudaHostUnregister(blocks.back()) == cudaSuccess); });
  for (char* block : blocks) delete[] block;
  return cost;
}

}  // namespace

TEST_CASE("pinning costs by the byte above a slab's blocks, and an eighth where pages are there") {
  const double eight = cost_of_alloc(8 * kMib);
  CHECK(cost_of_alloc(64 * kMib) / eight > 5);
  CHECK(cost_of_alloc(64 * kMib) / eight < 16);
  const double untouched = cost_of_register(false);
  CHECK(untouched / cost_of_register(true) > 5);
  CHECK(untouched / eight > 1.3);
  CHECK(untouched / eight < 3);
}

TEST_CASE("a slab of small pinned blocks goes with its last one, and is pinned again") {
  const double alone = cost_of_alloc(4096);
  CHECK(alone / cost_of_alloc(32 * kMib) > 0.02);  // 2 of 32 MiB
  void* block = nullptr;
  REQUIRE(cudaMallocHost(&block, 4096) == cudaSuccess);
  CHECK(cost_of_alloc(4096) < alone / 10);
  CHECK(cost_of_alloc(2 * kMib) > alone / 2);  // no room for it there
  REQUIRE(cudaFreeHost(block) == cudaSuccess);
  CHECK(cost_of_alloc(4096) > alone / 2);
}

TEST_CASE("a pool of the host pins a chunk for its first block, and none for the next") {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeHost, 0};
  cudaMemPool_t pool = nullptr;
  void* block = nullptr;
  const auto make = [&] { REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess); };
  const auto take = [&] {
    REQUIRE(cudaMallocFromPoolAsync(&block, kMib, pool, nullptr) == cudaSuccess);
  };
  const auto give = [&] { REQUIRE(cudaFreeAsync(block, nullptr) == cudaSuccess); };
  const auto wait = [] { REQUIRE(cudaDeviceSynchronize() == cudaSuccess); };
  const auto end = [&] { REQUIRE(cudaMemPoolDestroy(pool) == cudaSuccess); };
  const auto free_all = [&] { give(), wait(), end(); };
  const double chunk = cost_of_alloc(32 * kMib);
  const double first = cost_of(make, take, free_all);
  CHECK(first / chunk > 0.25);
  CHECK(first / chunk < 0.9);
  const double next = cost_of([&] { make(), take(); }, [&] { give(), take(); }, free_all);
  CHECK(next < first / 100);
  // Given back with the next wait of the host.
  const double returned = cost_of([&] { make(), take(), give(); }, wait, end);
  CHECK(returned > first / 20);
  CHECK(returned < first / 2);
}
