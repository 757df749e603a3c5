#include "base/nearest.h"

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("a misspelled name finds the one that was meant") {
  CHECK(nearest_names("cachnig", {"null", "native", "caching", "cub"}).front() == "caching");
  CHECK(nearest_names("NATIVE", {"null", "native"}).front() == "native");
}

TEST_CASE("a key from an article finds the real one that begins alike") {
  const std::vector<std::string> known = {"max_split_size_mb", "garbage_collection_threshold",
                                          "backend"};
  CHECK(suggest("garbage_interval", known) == "did you mean 'garbage_collection_threshold'?");
}

TEST_CASE("a name like no other lists what there is") {
  CHECK(suggest("zzzzzzzzzz", {"null", "cub"}) == "known: null, cub");
}

TEST_CASE("two swapped letters in a short name are one slip") {
  CHECK(nearest_names("bacth", {"events", "batch"}) == std::vector<std::string>{"batch"});
  CHECK(nearest_names("chrun", {"train", "churn"}) == std::vector<std::string>{"churn"});
}
