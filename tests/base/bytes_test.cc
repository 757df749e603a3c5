#include "base/bytes.h"

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("sizes are read with binary units") {
  CHECK(parse_bytes("4096") == 4096u);
  CHECK(parse_bytes("512 MiB") == 536870912u);
  CHECK(parse_bytes("8gb") == 8589934592u);
  CHECK(parse_bytes("1.5GiB") == 1610612736u);
  CHECK(parse_bytes("18446744073709551615") == UINT64_MAX);
}

TEST_CASE("what is no size is refused") {
  for (const char* text : {"", "GiB", "-1", "8 parsecs", "1..5G", "0x10", "99999999999GiB",
                           "18446744073709551616", "1e3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text).has_value());
  }
}

TEST_CASE("sizes are printed with three significant places") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(150109880320) == "140 GiB");
}
