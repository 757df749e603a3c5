// harness/tools/qualify/schema.json, and the tables of harness/tools/qualify/TESTS.md, "Report", as
// the field table makes them.
#pragma once

#include <string>

namespace allocmark::qualify {

[[nodiscard]] std::string report_schema_text();
// The page with its tables made anew.
[[nodiscard]] std::string with_report_tables(std::string page);

}  // namespace allocmark::qualify
