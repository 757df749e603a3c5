// Goal: the comparison of pinned caches finds the rule in which another cache differs, and nothing
// in an equal one. Method: HostCache itself, of this release or another, stands for PyTorch.
#include "harness/tools/parity/host_program.h"

#include <string>
#include <utility>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

using caching::Settings;

// As PyTorch's, whose settings change by their text.
class ChangingCache : public host_caching::HostCache {
 public:
  ChangingCache(host_caching::CountingDriver& driver, Settings settings)
      : HostCache(driver, settings), settings_(std::move(settings)) {}
  std::string change(const std::string& conf) {
    std::string refused = caching::change_like_pytorch(settings_, conf);
    HostCache::change(settings_);
    return refused;
  }

 private:
  Settings settings_;
};

// As if PyTorch were `other_pytorch`, whose settings are those of the program.
PairResult compare(const PairProgram& program, const std::string& other_pytorch) {
  const Settings settings =
      caching::parse_strict(host_conf(program), caching::require_rules(other_pytorch, "a test"))
          .settings;
  host_caching::CountingDriver driver(host_room_bytes(program));
  ChangingCache cache(driver, settings);
  return compare_host_caches(program, cache, driver);
}

TEST_CASE("a cache of the same release answers alike, whatever is asked") {
  for (const char* release :
       {"2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"}) {
    PairResult sum;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const PairResult result =
          compare({.seed = seed, .operation_count = 5000, .rules = release}, release);
      INFO(release << ", seed " << seed << ": " << result.operation);
      CHECK(result.operation.empty());
      CHECK(result.operation_count == 5000);
      CHECK(result.counts.at("counters") >= 5000 * 20);
      for (const auto& [name, count] : result.counts) sum.counts[name] += count;
    }
    INFO(release);
    CHECK(sum.counts["blocks"] > 2000);
    CHECK(sum.counts["reused"] > 100);
    CHECK(sum.counts["refusals"] > 10);
    CHECK(sum.counts["changes"] > 10);
    const bool captures = std::string(release) != "2.9.1" && std::string(release) != "2.10.0";
    CHECK((sum.counts["captures"] > 10) == captures);
  }
}

TEST_CASE("a cache with another rule is told by the first operation that shows it") {
  // 2.14 looks at the size of a free block, and 2.15 counts per pool.
  PairResult sizes;
  PairResult pools;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    if (sizes.operation.empty())
      sizes = compare({.seed = seed, .operation_count = 2000, .rules = "2.13.0"}, "2.14.1");
    if (pools.operation.empty())
      pools = compare({.seed = seed, .operation_count = 2000, .rules = "2.14.1"}, "2.15.0");
  }
  CHECK(sizes.operation.starts_with("allocate "));
  CHECK(sizes.theirs != sizes.ours);
  CHECK(pools.theirs.find(".peak=") != std::string::npos);
  CHECK(pools.theirs.find(".current=") == std::string::npos);
}

TEST_CASE("a block at another place is a difference") {
  const PairProgram program{.seed = 4, .operation_count = 1000, .rules = "2.13.0"};
  const Settings settings =
      caching::parse_strict(host_conf(program), caching::require_rules("2.13.0", "a test"))
          .settings;
  host_caching::CountingDriver driver(host_room_bytes(program));
  REQUIRE(driver.pin(4096, host_caching::PinKind::HostAlloc, 1) != 0);
  ChangingCache cache(driver, settings);
  const PairResult result = compare_host_caches(program, cache, driver);
  CHECK(result.operation.starts_with("allocate "));
  CHECK(result.theirs.ends_with(" bytes at 0x10000400000"));
  CHECK(result.ours.ends_with(" bytes at 0x10000000000"));
}

}  // namespace
}  // namespace allocmark
