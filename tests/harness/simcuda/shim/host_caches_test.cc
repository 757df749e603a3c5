// What a call that enters the kernel does to the caller's caches.
#include <x86intrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "harness/simcuda/shim/host_caches.h"
#include "tests/catch.h"

using namespace simcuda;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::size_t kMiB = std::size_t{1} << 20;

// A list through 32 KiB in random order, which every first-level cache holds.
class List {
 public:
  List() : next_(kCount * kStep) {
    std::vector<std::size_t> order(kCount);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (std::size_t i = 0; i < kCount; ++i) {
      next_[order[i] * kStep] = order[(i + 1) % kCount] * kStep;
    }
  }
  [[nodiscard]] std::uint64_t walk_ticks() {
    _mm_lfence();
    const std::uint64_t begin = __rdtsc();
    for (std::size_t i = 0; i < kCount; ++i) at_ = next_[at_];
    _mm_lfence();
    return __rdtsc() - begin;
  }

 private:
  static constexpr std::size_t kCount = 512;
  static constexpr std::size_t kStep = 8;  // a line
  std::vector<std::size_t> next_;
  volatile std::size_t at_ = 0;
};

// The median of many walks, each after three that warm the list and then `displaced` bytes.
// Under a sanitizer nothing asks for it.
[[maybe_unused]] std::uint64_t median_ticks(List& list, std::size_t displaced) {
  std::vector<std::uint64_t> ticks;
  for (int i = 0; i < 201; ++i) {
    for (int warm = 0; warm < 3; ++warm) static_cast<void>(list.walk_ticks());
    HostCaches caches;
    if (displaced != 0) caches.displace(displaced);
    ticks.push_back(list.walk_ticks());
  }
  std::nth_element(ticks.begin(), ticks.begin() + 100, ticks.end());
  return ticks[100];
}

}  // namespace

// A sanitizer's own work for every access takes longer than a miss of the cache.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a program's data has left the first-level cache after a call into the kernel") {
  List list;
  std::uint64_t warm = 0;
  std::uint64_t cold = 0;
  // Beside other programs nothing stays warm, so a quiet moment is looked for.
  for (int attempt = 0; attempt < 25 && 2 * cold <= 3 * warm; ++attempt) {
    warm = median_ticks(list, 0);
    cold = median_ticks(list, kMiB);
  }
  INFO("warm " << warm << " ticks, cold " << cold);
  CHECK(2 * cold > 3 * warm);
}
#endif

TEST_CASE("calls displace more with more memory in use, and failed ones little") {
  CHECK(displaced_bytes(CostId::Malloc, 130 * kGiB) > displaced_bytes(CostId::Malloc, kGiB));
  CHECK(displaced_bytes(CostId::Free, kGiB) < displaced_bytes(CostId::Malloc, kGiB));
  CHECK(displaced_bytes(CostId::MallocFailed, 130 * kGiB) <
        displaced_bytes(CostId::Free, kGiB) * 2);
  CHECK(displaces_caches(CostId::MemSetAccess));
  CHECK_FALSE(displaces_caches(CostId::MallocSlab));
  CHECK_FALSE(displaces_caches(CostId::EventQuery));
  CHECK_FALSE(displaces_caches(CostId::MallocAsync));
}

TEST_CASE("of calls in a row only the first empties the caches") {
  std::uint64_t first_ticks = ~std::uint64_t{0};
  std::uint64_t second_ticks = ~std::uint64_t{0};
  for (int i = 0; i < 9; ++i) {
    HostCaches caches;
    const std::uint64_t begin = __rdtsc();
    caches.displace(4 * kMiB);
    const std::uint64_t middle = __rdtsc();
    caches.displace(4 * kMiB);
    first_ticks = std::min(first_ticks, middle - begin);
    const std::uint64_t end = __rdtsc();
    second_ticks = std::min(second_ticks, end - middle);
  }
  INFO("first " << first_ticks << " ticks, second " << second_ticks);
  CHECK(4 * second_ticks < first_ticks);
}

TEST_CASE("caches stay warm where that is asked for") {
  HostCaches caches;
  leave_host_caches_warm(true);
  caches.displace(kMiB);
  CHECK(caches.emptied_ticks == 0);
  leave_host_caches_warm(false);
  caches.displace(kMiB);
  CHECK(caches.emptied_ticks != 0);
}
