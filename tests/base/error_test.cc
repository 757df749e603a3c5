#include "base/error.h"

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE(
    "an error says where, what, wanted, got and the next step, and leaves out what is empty") {
  const ErrorText text{.what = "size is negative",
                       .where = "t.csv:3",
                       .wanted = "bytes >= 0",
                       .got = "-5",
                       .next = "Fix the row."};
  CHECK(to_string(text) == "t.csv:3: size is negative; wanted bytes >= 0; got -5. Fix the row.");
  CHECK(to_string(ErrorText{.what = "no GPU", .where = {}, .wanted = {}, .got = {}, .next = {}}) ==
        "no GPU");
}

TEST_CASE("a usage error carries exit code 2") {
  const UsageError error({.what = "x", .where = {}, .wanted = {}, .got = {}, .next = {}});
  CHECK(error.exit_code() == ExitCode::Usage);
}
