// Goal: cells at the same time on one GPU are refused where they would take each other's memory for
// their own, and simulated GPUs, which are a process's own, are never shared.
#include "harness/core/run/device_sharing.h"

#include <array>

#include "base/error.h"
#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("a capacity that holds memory back is for one cell at a time on a GPU") {
  CellKey key;
  key.device = "cuda:0", key.capacity = "1.05x";
  CHECK_FALSE(can_share_device(key));
  CHECK_NOTHROW(require_shareable(std::array{key}, 1));
  CHECK_THROWS_AS(require_shareable(std::array{key}, 2), UsageError);
  for (const char* capacity : {"unlimited", "1.05x@limit"}) {
    key.capacity = capacity;
    CHECK_NOTHROW(require_shareable(std::array{key}, 2));
  }
  key.capacity = "1.05x", key.device = "sim:h200";
  CHECK_NOTHROW(require_shareable(std::array{key}, 2));
}

TEST_CASE("only cells beside others on a GPU share it") {
  CellKey key;
  key.device = "cuda:0";
  CHECK(shares_device(key, 2));
  CHECK_FALSE(shares_device(key, 1));
  key.device = "sim:h200";
  CHECK_FALSE(shares_device(key, 2));
}
