// Goal: no text takes the reader of JSON down, however it is nested, long or wrong.
#include "base/json_text.h"

#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"

using namespace allocmark;

namespace {

std::string problem_of(const std::string& text, const JsonLimits& limits = {}) {
  std::string sorted;
  std::string ordered;
  CHECK(parse_json(text, &sorted, limits).is_discarded());
  CHECK(parse_ordered_json(text, &ordered, limits).is_discarded());
  CHECK(sorted == ordered);
  return ordered;
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("values come back as they were written, and an ordered document keeps its order") {
  const char* text = R"({"b":[1,-2,3.5,"x",true,null,{}],"a":18446744073709551615})";
  CHECK(parse_ordered_json(text).dump() == text);
  CHECK(parse_json(text).at("a") == 18446744073709551615U);
  CHECK(parse_json(text).dump() == R"({"a":18446744073709551615,"b":[1,-2,3.5,"x",true,null,{}]})");
}

TEST_CASE("depth is limited, before the stack is") {
  CHECK(!parse_json(nested(64)).is_discarded());
  CHECK(problem_of(nested(65)) == "it nests more than 64 deep");
  CHECK(problem_of(std::string(1'000'000, '[')) == "it nests more than 64 deep");
}

TEST_CASE("the number of values is limited") {
  CHECK(!parse_json("[1,2,3]", nullptr, {.value_count_max = 4}).is_discarded());
  CHECK(problem_of("[1,2,3,4]", {.value_count_max = 4}) == "it has more than 4 values");
}

TEST_CASE("a key twice in one object is refused, and in two objects it is not") {
  CHECK(problem_of(R"({"seed":1,"x":2,"seed":3})") == "a key is there twice: 'seed'");
  CHECK(!parse_json(R"([{"seed":1},{"seed":2}])").is_discarded());
}

TEST_CASE("what is not JSON is said with its place and without the library's words") {
  CHECK(problem_of("") == "nothing");
  CHECK(problem_of("{\"a\":1,\n  oops}") == "line 2, column 3: not JSON near 'o'");
  CHECK(problem_of("{} {}").starts_with("line 1, column 4"));
  CHECK(problem_of("[1e999]").find("json.exception") == std::string::npos);
  CHECK_THROWS_WITH(
      parse_json("[", {.where = "p.json", .what = "no plan", .wanted = "a plan"}),
      Catch::Matchers::StartsWith("p.json: no plan; wanted a plan; got line 1, column 1: "));
}

TEST_CASE("a missing key is told in plain words") {
  try {
    static_cast<void>(parse_json("{}").at("title"));
    FAIL("nothing was thrown");
  } catch (const nlohmann::json::exception& error) {
    CHECK(json_reason(error) == "key 'title' not found");
  }
}

TEST_CASE("what a terminal obeys is escaped, and comes back as it was") {
  const std::string text =
      "a\x7F\xC2\x9B"
      "2J\xE2\x80\xAE\x1B[31m\xC3\xA4";
  const std::string written = json_text(nlohmann::json(text));
  CHECK(written == "\"a\\u007f\\u009b2J\\u202e\\u001b[31m\xC3\xA4\"");
  CHECK(parse_json(written) == text);
  CHECK(json_text(nlohmann::ordered_json(text)) == written);
}
