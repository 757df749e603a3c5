// The field table (results/fields.h) as a JSON Schema and as tables in Markdown: what
// results/schema.json and results/DEFINITIONS.md are made from. Flows in: nothing but the table;
// flows out: text.
#pragma once

#include <string>
#include <vector>

namespace allocmark {

// The whole text of results/schema.json.
[[nodiscard]] std::string schema_text();

// One table of results/DEFINITIONS.md, and the heading (without '#') that it follows.
struct FieldTable {
  std::string heading, table;
};
[[nodiscard]] std::vector<FieldTable> field_tables();

// The page with the first table after each heading replaced. Throws std::runtime_error, with the
// heading, where the page has no such heading or no table below it.
[[nodiscard]] std::string with_tables(std::string page, const std::vector<FieldTable>& tables);

}  // namespace allocmark
