// Walks the field table and writes each row as a rule of JSON Schema and as a row in Markdown.
#include "tests/harness/qualify/report_schema.h"

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "harness/tools/qualify/report_fields.h"

namespace allocmark::qualify {
namespace {

using Json = nlohmann::ordered_json;

struct Table {
  std::string heading, rows;
};

class Walker {
 public:
  explicit Walker(std::vector<Table>& tables) : tables_(tables) {}

  void text(const Field& field, const std::string& /*value*/) { add(field, {{"type", "string"}}); }
  void derived(const Field& field, const std::string& value) {
    add(field, field.choices.empty() ? Json{{"type", "string"}} : Json{{"const", value}});
  }
  void real(const Field& field, double /*value*/) { add(field, {{"type", "number"}}); }
  void number(const Field& field, const std::optional<double>& /*value*/) {
    add(field, {{"type", {"number", "null"}}});
  }
  template <typename Number>
  void count(const Field& field, Number /*value*/) {
    add(field, {{"type", "integer"}, {"minimum", 0}});
  }
  void flag(const Field& field, bool /*value*/) { add(field, {{"type", "boolean"}}); }
  void verdict(const Field& field, Verdict /*value*/) {
    add(field, {{"enum", {"PASS", "WARN", "FAIL", "SKIP"}}});
  }
  void direction(const Field& field, bool /*value*/) { add(field, {{"enum", {"max", "min"}}}); }
  void exit_code(const Field& field, ExitCode /*value*/) { add(field, {{"enum", {0, 1, 4}}}); }
  void document(const Field& field, const std::string& /*value*/) {
    add(field, {{"type", {"object", "null"}}});
  }
  template <typename Item, typename Visit>
  void object(const Field& field, const Item& item, Visit visit) {
    add(field, nested(field.name, item, visit));
  }
  template <typename Item, typename Visit>
  void objects(const Field& field, const std::vector<Item>& /*items*/, Visit visit) {
    add(field, {{"type", "array"}, {"items", nested(field.name, Item{}, visit)}});
  }

  [[nodiscard]] Json rule() const {
    return {{"type", "object"},
            {"properties", properties_},
            {"required", required_},
            {"additionalProperties", false}};
  }
  [[nodiscard]] const std::string& rows() const { return rows_; }

 private:
  void add(const Field& field, Json rule) {
    rows_ += fmt::format("| `{}` | {} |\n", field.name, field.meaning);
    rule["description"] = field.meaning;
    properties_[field.name] = std::move(rule);
    required_.push_back(field.name);
  }
  template <typename Item, typename Visit>
  Json nested(const std::string& name, const Item& item, Visit visit) {
    Walker walker(tables_);
    visit(walker, item);
    const std::string heading = "Keys of `" + name + "`";
    // Tests of GPUs and of the node are the same.
    if (name != "node_tests") tables_.push_back({heading, walker.rows()});
    return walker.rule();
  }

  std::vector<Table>& tables_;
  Json properties_ = Json::object();
  std::vector<std::string> required_;
  std::string rows_;
};

std::vector<Table> walk(Json* rule) {
  std::vector<Table> tables;
  Walker walker(tables);
  const Report report;
  fields::visit_report(walker, report);
  tables.push_back({"Keys of the report", walker.rows()});
  *rule = walker.rule();
  return tables;
}

}  // namespace

std::string report_schema_text() {
  Json rule;
  (void)walk(&rule);
  Json schema{
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$id", "urn:allocmark:qualification:1"},
      {"title", "qualify.json of 'allocmark qualify'"},
      {"description", fmt::format("Schema {}. Made from harness/tools/qualify/report_fields.h by "
                                  "scripts/check/approve_goldens.sh.",
                                  fields::kQualificationVersion)}};
  schema.update(rule);
  return schema.dump(1) + "\n";
}

std::string with_report_tables(std::string page) {
  Json rule;
  for (const Table& table : walk(&rule)) {
    const std::size_t heading = page.find("### " + table.heading + "\n");
    if (heading == std::string::npos) throw std::runtime_error("no heading: " + table.heading);
    const std::size_t begin = page.find("\n| ", heading);
    const std::size_t end = page.find("\n\n", begin);
    const std::size_t stop = end == std::string::npos ? page.size() : end + 1;
    page.replace(begin + 1, stop - begin - 1, "| key | meaning |\n| --- | --- |\n" + table.rows);
  }
  return page;
}

}  // namespace allocmark::qualify
