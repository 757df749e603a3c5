// The splitting of config strings that all backends share: what is accepted, and that every error
// names its place.
#include "allocators/conf/conf.h"

#include <string>
#include <vector>

#include "tests/catch.h"

using namespace allocmark;

namespace {

const std::vector<std::string> kKeys = {"max_split_size_mb", "garbage_collection_threshold",
                                        "roundup_power2_divisions"};

// The error of a string that must have one.
ErrorText error_of(std::string_view conf) {
  const ConfSplit split = split_conf(conf, kKeys);
  INFO(conf);
  REQUIRE(split.error.has_value());
  return *split.error;
}

}  // namespace

TEST_CASE("an empty config string, or one of blanks, has no pairs") {
  for (const char* conf : {"", "  ", "\t"}) {
    const ConfSplit split = split_conf(conf, kKeys);
    CHECK_FALSE(split.error.has_value());
    CHECK(split.pairs.empty());
  }
}

TEST_CASE("pairs keep their columns, and blanks around words and a trailing comma are allowed") {
  const ConfSplit split =
      split_conf(" max_split_size_mb : 128 ,roundup_power2_divisions:[256:1, >:2],", kKeys);
  REQUIRE_FALSE(split.error.has_value());
  REQUIRE(split.pairs.size() == 2);
  CHECK(split.pairs[0].key == "max_split_size_mb");
  CHECK(split.pairs[0].key_column == 2);
  CHECK(split.pairs[0].value == "128");
  CHECK(split.pairs[0].value_column == 22);
  CHECK(split.pairs[1].value == "[256:1, >:2]");
  CHECK(split.pairs[1].value_column == 52);
}

TEST_CASE("a semicolon is named, and so is the unknown key behind it") {
  const ErrorText error = error_of("max_split_size_mb:128;garbage_interval:5");
  CHECK(error.what == "';' is not a separator in a config string");
  CHECK(error.where == "config string, key max_split_size_mb, column 22");
  CHECK(error.next ==
        "use ','; then there is no config key 'garbage_interval' (config string, column 23), "
        "did you mean 'garbage_collection_threshold'?");
  CHECK(error_of("max_split_size_mb:128;garbage_collection_threshold:0.5").next ==
        "write 'max_split_size_mb:128,garbage_collection_threshold:0.5'");
}

TEST_CASE("an unknown key finds the one that was meant") {
  const ErrorText error = error_of("max_split_size_mb:128,garbage_threshold:5");
  CHECK(error.what == "there is no config key 'garbage_threshold'");
  CHECK(error.where == "config string, column 23");
  CHECK(error.next == "did you mean 'garbage_collection_threshold'?");
  CHECK(error_of("MAX_SPLIT_SIZE_MB:1").next == "did you mean 'max_split_size_mb'?");
}

TEST_CASE("every malformed config string is an error with its column") {
  struct Case {
    const char* conf;
    const char* what;
    const char* column;
  };
  const Case cases[] = {
      {"max_split_size_mb", "':' and a value must follow the key", "column 18"},
      {"max_split_size_mb=128", "':' and a value must follow the key", "column 18"},
      {"max_split_size_mb,128", "':' and a value must follow the key", "column 18"},
      {"max_split_size_mb:", "a config key has no value", "column 19"},
      {"max_split_size_mb:,", "a config key has no value", "column 19"},
      {",max_split_size_mb:1", "a config key is missing", "column 1"},
      {"max_split_size_mb:1,,", "a config key is missing", "column 21"},
      {"max_split_size_mb:1 2", "a blank stands inside a value, or a ',' is missing", "column 21"},
      {"max_split_size_mb:1:2", "a character that cannot follow a value", "column 20"},
      {"max_split_size_mb:1]", "a character that cannot follow a value", "column 20"},
      {"max_split_size_mb:1,max_split_size_mb:2", "a config key stands twice", "column 21"},
      {"roundup_power2_divisions:[1:2", "a list is not closed", "column 26"},
      {"roundup_power2_divisions:[1:[2]]", "a list stands in a list", "column 29"},
      {"\xff", "a config key is missing", "column 1"},
  };
  for (const Case& item : cases) {
    const ErrorText error = error_of(item.conf);
    INFO(item.conf);
    CHECK(error.what == item.what);
    CHECK(error.where.ends_with(item.column));
  }
}

TEST_CASE("a byte that cannot be printed is shown by its number") {
  CHECK(error_of("\xff").got == "byte 255");
}
