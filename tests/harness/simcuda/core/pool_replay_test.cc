// Goal: stream-ordered pools answer as the H200's did. Method: replay the recorded logs and compare
// addresses, return codes, reserved and used bytes with their high marks, and the device's free
// bytes after every call.
#include <cstdint>
#include <string>

#include "tests/catch.h"
#include "tests/harness/simcuda/core/pool_replay.h"

namespace simcuda {
namespace {

struct ExpectedLog {
  const char* file;
  std::uint64_t line_count;
};

TEST_CASE("pool logs replay with every figure equal") {
  const ExpectedLog expected =
      GENERATE(ExpectedLog{"B_busy111.log.gz", 2300}, ExpectedLog{"B_dummy.log.gz", 3752},
               ExpectedLog{"C_pools.log.gz", 47}, ExpectedLog{"H11_cudafull.log.gz", 1792});
  const PoolReplay replay =
      replay_pool_log(std::string("tests/golden/simcuda/pool/") + expected.file);
  INFO(expected.file << ": first difference at: " << replay.first_difference);
  CHECK(replay.line_count == expected.line_count);
  CHECK(replay.status_equal_count == replay.line_count);
  CHECK(replay.address_equal_count == replay.line_count);
  CHECK(replay.reserved_equal_count == replay.line_count);
  CHECK(replay.reserved_high_equal_count == replay.line_count);
  CHECK(replay.used_equal_count == replay.line_count);
  CHECK(replay.used_high_equal_count == replay.line_count);
  CHECK(replay.free_equal_count == replay.line_count);
}

}  // namespace
}  // namespace simcuda
