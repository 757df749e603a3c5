// Goal: the published schema and the published definitions are what the field table says. Method:
// make both from the table and compare every byte; scripts/check/approve_goldens.sh writes them
// anew.

#include <stdexcept>
#include <string>

#include "tests/catch.h"
#include "tests/results/field_tables.h"
#include "tests/support/golden.h"

using namespace allocmark;

TEST_CASE("results/schema.json is as approved: as the field table makes it") {
  check_file("results/schema.json", schema_text());
}

TEST_CASE("the tables of results/DEFINITIONS.md are as approved: as the field table makes them") {
  const std::string path = "results/DEFINITIONS.md";
  check_file(path, with_tables(read_golden(path), field_tables()));
}

TEST_CASE("a table goes below its heading, and nothing else changes") {
  const std::string page = "# A\n\n## B\n\ntext\n\n| x |\n| :-- |\n| old |\n\nend | pipe\n";
  CHECK(with_tables(page, {{"B", "| new |\n"}}) ==
        "# A\n\n## B\n\ntext\n\n| new |\n\nend | pipe\n");
  CHECK_THROWS_AS(with_tables(page, {{"C", "| new |\n"}}), std::runtime_error);
  CHECK_THROWS_AS(with_tables("# A\n\n## B\n\n| x |\n", {{"A", ""}}), std::runtime_error);
}
