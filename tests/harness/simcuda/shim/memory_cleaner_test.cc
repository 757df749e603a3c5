// Freed memory that is still being cleared.

#include "harness/simcuda/shim/memory_cleaner.h"
#include "tests/catch.h"

using simcuda::MemoryCleaner;

TEST_CASE("a request waits only where it needs memory that is not clean yet") {
  // 1000 bytes in all, cleared at 1 byte per ns.
  MemoryCleaner cleaner(1000);
  CHECK_FALSE(cleaner.follow(900, 1000, 0).has_value());
  CHECK_FALSE(cleaner.follow(400, 1000, 100).has_value());   // 500 freed, clean at 600
  CHECK_FALSE(cleaner.follow(500, 1000, 110).has_value());   // the clean 100 suffice
  CHECK(cleaner.follow(501, 1000, 120));                     // a byte more does not
  CHECK_FALSE(cleaner.follow(1000, 1000, 130).has_value());  // the wait was for everything
}

TEST_CASE("pieces are cleared one after the other, in the order in which they were freed") {
  MemoryCleaner cleaner(1000);
  CHECK_FALSE(cleaner.follow(1000, 1000, 0).has_value());
  CHECK_FALSE(cleaner.follow(800, 1000, 0).has_value());    // clean at 200
  CHECK_FALSE(cleaner.follow(700, 1000, 50).has_value());   // clean at 300, not at 150
  CHECK_FALSE(cleaner.follow(900, 1000, 200).has_value());  // the first piece
  CHECK(cleaner.follow(901, 1000, 299) == 300);
}

TEST_CASE("where nothing is cleared nobody waits") {
  MemoryCleaner cleaner(0);
  CHECK_FALSE(cleaner.follow(1000, 1000, 0).has_value());
  CHECK_FALSE(cleaner.follow(0, 1000, 1).has_value());
  CHECK_FALSE(cleaner.follow(1000, 1000, 1).has_value());
}
