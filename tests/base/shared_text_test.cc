#include "base/shared_text.h"

#include <string>

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("a shared text reads as what it was made of") {
  const SharedText text = "reserved_bytes_peak";
  CHECK(text == "reserved_bytes_peak");
  CHECK(text == std::string("reserved_bytes_peak"));
  CHECK(text == SharedText(std::string("reserved_bytes_peak")));
  CHECK_FALSE(text == "reserved");
  CHECK(text.contains("_bytes"));
  CHECK_FALSE(text.contains("_count"));
  CHECK(text.starts_with("reserved"));
  CHECK(SharedText().empty());
  CHECK(SharedText("") == SharedText());
  CHECK(SharedText().text() == "");
}

TEST_CASE("a pool keeps one of the texts that say the same, and they outlive it") {
  SharedText first = "two runs of the same thing differ";
  SharedText second = std::string("two runs of the same thing differ");
  SharedText other = "more passes would tell";
  {
    TextPool pool;
    for (SharedText* text : {&first, &second, &other}) pool.share(*text);
    CHECK(first.text().data() == second.text().data());
    SharedText none;
    pool.share(none);
    CHECK(none.empty());
  }
  first = "gone";
  CHECK(second == "two runs of the same thing differ");
  CHECK(other == "more passes would tell");
}
