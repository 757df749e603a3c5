// The least capacity, against a look at every capacity.
#include "harness/core/search/capacities.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "harness/core/replay/capacity.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

// A made-up job: page p of capacity serves or not, and ranges of pages behave alike.
struct Job {
  std::vector<bool> serves;             // by page count
  std::vector<std::uint64_t> range_of;  // which range a page count is in

  [[nodiscard]] Probe ask(std::uint64_t capacity_bytes) const {
    const std::uint64_t page = capacity_bytes / kDevicePageBytes;
    std::uint64_t low = page;
    std::uint64_t high = page + 1;
    while (low > 0 && range_of[low - 1] == range_of[page]) --low;
    while (high < serves.size() && range_of[high] == range_of[page]) ++high;
    const bool is_last = high == serves.size();
    return {.serves = serves[page],
            .range = {.low_bytes = low * kDevicePageBytes,
                      .high_bytes = is_last ? ~std::uint64_t{0} : high * kDevicePageBytes}};
  }

  [[nodiscard]] std::optional<std::uint64_t> least() const {
    std::uint64_t page = serves.size();
    while (page > 0 && serves[page - 1]) --page;
    if (page == serves.size()) return std::nullopt;
    return page * kDevicePageBytes;
  }
};

// Ranges of up to 9 pages, each of which serves by chance, more likely the more memory there is.
Job random_job(Random* random, bool monotone) {
  constexpr std::uint64_t kPageCount = 200;
  Job job;
  const std::uint64_t boundary = random->below(kPageCount);
  for (std::uint64_t range = 0; job.serves.size() < kPageCount; ++range) {
    const std::uint64_t page = job.serves.size();
    const bool above = page >= boundary;
    const bool serves = monotone ? above : above ? random->below(8) != 0 : random->below(8) == 0;
    for (std::uint64_t size = 1 + random->below(9); size > 0; --size) {
      job.serves.push_back(serves);
      job.range_of.push_back(range);
    }
  }
  return job;
}

LeastCapacity find(const Job& job, std::uint32_t settle_count_max) {
  return find_least_capacity({.needed_bytes = 0,
                              .usable_bytes = (job.serves.size() - 1) * kDevicePageBytes,
                              .settle_count_max = settle_count_max},
                             [&](std::uint64_t bytes) { return job.ask(bytes); });
}

TEST_CASE("the least capacity is that of a look at every page, monotone or not") {
  Random random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const Job job = random_job(&random, trial % 2 == 0);
    const LeastCapacity found = find(job, 0);
    REQUIRE(found.least_bytes == job.least());
    REQUIRE(found.unsettled_bytes == 0);
    if (trial % 2 == 0) REQUIRE_FALSE(found.serves_below_bytes.has_value());
  }
}

TEST_CASE("where passes are limited, what is unsettled is said") {
  Job job;
  for (std::uint64_t page = 0; page < 100; ++page) {
    job.serves.push_back(page >= 20);
    job.range_of.push_back(page);
  }
  const LeastCapacity found = find(job, 1);
  CHECK(found.least_bytes == 20 * kDevicePageBytes);
  CHECK(found.unsettled_bytes > 0);
  CHECK(find(job, 0).unsettled_bytes == 0);
}

TEST_CASE("a smaller capacity that serves below one that fails is told") {
  Job job;
  for (std::uint64_t page = 0; page < 64; ++page) {
    job.serves.push_back(page >= 10 && page != 60);
    job.range_of.push_back(page);
  }
  const LeastCapacity found = find(job, 0);
  CHECK(found.least_bytes == 61 * kDevicePageBytes);
  REQUIRE(found.serves_below_bytes.has_value());
}

TEST_CASE("nothing is found where the whole device does not serve") {
  Job job;
  job.serves.assign(10, false);
  job.range_of.assign(10, 0);
  CHECK_FALSE(find(job, 0).least_bytes.has_value());
}

}  // namespace
}  // namespace allocmark
