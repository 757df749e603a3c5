// Figures as programs print them: units, rounding, and what is no size.
#include "harness/tools/why/message/figure.h"

#include "tests/catch.h"

using namespace allocmark::message;

namespace {

constexpr std::int64_t kMi = 1 << 20;

Figure read(std::string_view text, FigureStyle style = {}) {
  const auto found = figure_at(text, 0, style);
  REQUIRE(found.has_value());
  return found->figure;
}

}  // namespace

TEST_CASE("a figure has its unit's bytes and the range that it was rounded from") {
  const Figure figure = read("74.77gibisallocated");
  CHECK(figure.bytes == 80283676180);
  CHECK(figure.printed == "74.77 GiB");
  CHECK(figure.high_bytes - figure.low_bytes >= 10 * kMi);
  CHECK(figure.high_bytes - figure.low_bytes <= 11 * kMi);
  CHECK(read("0bytesisfree").bytes == 0);
  CHECK(read("512bytes").low_bytes == 512);
  CHECK(read("1.5kib").bytes == 1536);
  CHECK(read("2tib").bytes == std::int64_t{2} << 40);
}

TEST_CASE("kB, MB and GB of these programs are powers of 1024, and it is told") {
  CHECK(read("2.00gb").bytes == std::int64_t{2} << 30);
  CHECK(read("2.00gb").is_decimal);
  CHECK(read("7.25g(").bytes == 7784628224);
  CHECK_FALSE(read("7.25g(").is_decimal);
}

TEST_CASE("a comma before two digits and a unit of 1024 is a decimal point") {
  const Figure figure = read("79,26gibofwhich");
  CHECK(figure.bytes == read("79.26gibofwhich").bytes);
  CHECK(figure.high_bytes == read("79.26gib").high_bytes);
  CHECK(figure.printed == "79,26 GiB");
  CHECK(read("1.002,00mib").bytes == 1002 * kMi);
  CHECK(read("1,002.00mib").bytes == 1002 * kMi);
  CHECK(read("1,002mib").bytes == 1002 * kMi);
  CHECK(read("0,50kib").bytes == 512);
  // Two things of a list, not one number.
  const std::string_view list = "gpu0,22gbmemory";
  CHECK(figure_before(list, list.find("memory"), {})->figure.printed == "22 GB");
  CHECK_FALSE(figure_at("1.002.00mib", 0, {}).has_value());
}

TEST_CASE("a number without a unit is bytes only where its program writes so") {
  CHECK_FALSE(figure_at("20.isfree", 0, {}).has_value());
  CHECK(read("8589934592inuse", {.bare_is_bytes = true}).bytes == 8589934592);
  CHECK(read("1,073,741,824bytes").bytes == 1073741824);
  CHECK(read("3|", {.bare_is_bytes = true}).bytes == 3);
}

TEST_CASE("what is no size is told from one") {
  for (const std::string_view text :
       {"17179869184.00gib", "-0.30gib", "nangib", "infgib", "18446744073709551615bytes",
        "99999999999999999999999999999999999999999999999999gib"}) {
    INFO(text);
    CHECK_FALSE(read(text).is_size);
  }
}

TEST_CASE("a unit of one letter counts before a word only where its program writes so") {
  CHECK_FALSE(figure_at("12.00gatthebottom", 0, {}).has_value());
  CHECK(read("12.00gatthebottom", {.has_letters = true}).bytes == std::int64_t{12} << 30);
  CHECK(read("10200547328maxinuse", {.bare_is_bytes = true}).bytes == 10200547328);
}

TEST_CASE("a figure may stand before its words") {
  const std::string_view text = "and3.87gibisreserved";
  const auto found = figure_before(text, text.find("isreserved"), {});
  REQUIRE(found.has_value());
  CHECK(found->figure.printed == "3.87 GiB");
  CHECK(found->begin == 3);
  const std::string_view list = "gpu0,22.00gibmemory";
  CHECK(figure_before(list, list.find("memory"), {})->figure.printed == "22.00 GiB");
  CHECK_FALSE(figure_before("isreserved", 0, {}).has_value());
  CHECK_FALSE(figure_before("gibisreserved", 3, {}).has_value());
}

TEST_CASE("a floored figure may be up to one unit more") {
  const Figure figure = read("13975mib|", {.is_floored = true});
  CHECK(figure.low_bytes == 13975 * kMi);
  CHECK(figure.high_bytes == 13976 * kMi);
}

TEST_CASE("a comparison holds for every value that prints so, or it does not hold") {
  CHECK(surely_less(read("0.99gib"), read("1.01gib")));
  CHECK_FALSE(surely_less(read("1.00gib"), read("1024.00mib")));
  CHECK_FALSE(surely_at_least(read("1.00gib"), read("1024.00mib")));
  CHECK(surely_at_least(read("1.01gib"), read("1024.00mib")));
}

TEST_CASE("a number that dots cut off is no figure") {
  CHECK_FALSE(figure_at("458549...", 0, {.bare_is_bytes = true}).has_value());
  CHECK(figure_at("458549.", 0, {.bare_is_bytes = true})->figure.bytes == 458549);
}
