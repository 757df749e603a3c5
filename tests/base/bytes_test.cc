#include "base/bytes.h"

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("a size is a number with its unit, powers of 1024 or of 1000 as the unit says") {
  CHECK(parse_bytes("4096B") == 4096u);
  CHECK(parse_bytes("512 MiB") == 536870912u);
  CHECK(parse_bytes("8GiB") == 8589934592u);
  CHECK(parse_bytes("24GB") == 24'000'000'000u);
  CHECK(parse_bytes("1kB") == 1000u);
  CHECK(parse_bytes("1.5GiB") == 1610612736u);
  CHECK(parse_bytes("18446744073709551615B") == UINT64_MAX);
}

TEST_CASE("what is no size, has no unit or one with two meanings is refused") {
  for (const char* text : {"", "GiB", "-1B", "8 parsecs", "1..5GiB", "0x10", "99999999999GiB", "24",
                           "24g", "24Gb", "24gb", "24G", "18446744073709551616B", "1e3B"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text).has_value());
  }
}

TEST_CASE("a number alone is bytes only where it is read as such") {
  CHECK(parse_bytes_or_count("4096") == 4096u);
  CHECK(parse_bytes_or_count("8GiB") == 8589934592u);
  CHECK_FALSE(parse_bytes_or_count("24g").has_value());
}

TEST_CASE("a refused size names what it may have meant") {
  CHECK(explain_bytes("24") == "24 has no unit: 24GiB or 24B");
  CHECK(explain_bytes("1.5") == "1.5 has no unit: 1.5GiB or 1.5GB");
  CHECK(explain_bytes("24g") == "'24g' may be 24GiB (2^30 bytes each) or 24GB (10^9)");
  CHECK(explain_bytes("3Mb") == "'3Mb' may be 3MiB (2^20 bytes each) or 3MB (10^6)");
  CHECK(explain_bytes("8 parsecs").empty());
  CHECK(explain_bytes("24GiB").empty());
}

TEST_CASE("sizes are printed with three significant places") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(150109880320) == "140 GiB");
}
