// Walks the field table and writes each row as a rule of JSON Schema and as a row in Markdown.
#include "tests/results/field_tables.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "results/environment_fields.h"
#include "results/fields.h"
#include "results/json.h"

namespace allocmark {
namespace {

struct Rule {
  Field field;
  std::string rule;  // JSON Schema
};

struct Definition {
  std::string name;
  std::vector<Rule> rules;
};

std::string reference(std::string_view name) {
  return fmt::format(R"({{"$ref": "#/$defs/{}"}})", name);
}

std::string one_of(const std::vector<std::string>& choices) {
  return fmt::format(R"({{"enum": ["{}"]}})", fmt::join(choices, R"(", ")"));
}

std::vector<std::string> split(std::string_view text, char mark) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == mark) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

constexpr const char* kTexts = R"({"type": "array", "items": {"type": "string"}})";

const char* definition_name(const OomEvent&) { return "oom_event"; }
const char* definition_name(const MemoryGrowth&) { return "growth"; }
const char* definition_name(const SizeClassLatency&) { return "size_class"; }
const char* definition_name(const PassSummary&) { return "pass"; }
const char* definition_name(const RequestLatency&) { return "requests"; }

// Walks one struct's fields; what is nested becomes a definition of its own.
class Walker {
 public:
  Walker(std::vector<Rule>& rules, std::vector<Definition>& nested)
      : rules_(rules), nested_(nested) {}

  void add(const Field& field, std::string rule) { rules_.push_back({field, std::move(rule)}); }

  void text(const Field& field, const std::string& /*value*/) {
    add(field, field.choices.empty() ? R"({"type": "string"})" : one_of(split(field.choices, ',')));
  }
  void optional_text(const Field& field, const std::string& /*value*/) {
    add(field, R"({"type": "string"})");
  }
  void texts(const Field& field, const std::vector<std::string>& /*value*/) { add(field, kTexts); }
  void boolean(const Field& field, bool /*value*/) { add(field, R"({"type": "boolean"})"); }
  void integer(const Field& field, std::uint64_t /*value*/) { add(field, reference("count")); }
  void optional_integer(const Field& field, const std::optional<std::uint64_t>& /*value*/) {
    add(field, reference("count_or_null"));
  }
  void known_integer(const Field& field, std::uint64_t /*value*/) {
    add(field, reference("count_or_null"));
  }
  void real(const Field& field, double /*value*/) { add(field, reference("real_or_null")); }
  void known_real(const Field& field, double value) { real(field, value); }
  void quantile(const Field& field, std::uint64_t /*count*/, double value) { real(field, value); }
  void histogram(const Field& field, const LatencyBuckets& /*value*/) {
    add(field, reference("histogram_or_null"));
  }
  void status(const Field& field, CellStatus /*value*/) {
    std::vector<std::string> names;
    for (int index = 0; index <= static_cast<int>(CellStatus::Interrupted); ++index) {
      names.emplace_back(to_string(static_cast<CellStatus>(index)));
    }
    add(field, one_of(names));
  }
  void cause(const Field& field, OomCause /*value*/) { add(field, one_of(causes())); }
  void cause_counts(const Field& field, const std::vector<std::uint64_t>& /*value*/) {
    for (const std::string& cause : causes()) {
      Field one = field;
      one.name += cause;
      if (cause == to_string(OomCause::Pending)) one.since_minor = 5;
      add(one, reference("count"));
    }
  }
  template <typename Counters>
  void counters(const Field& field, const Counters& /*value*/) {
    add(field, R"({"type": "object", "additionalProperties": {"type": "integer", )"
               R"("minimum": -9223372036854775808, "maximum": 9223372036854775807}})");
  }
  template <typename Item, typename Visit>
  void optional_object(const Field& field, const std::optional<Item>& /*value*/, Visit visit) {
    add(field, fmt::format(R"({{"anyOf": [{}, {{"type": "null"}}]}})", nest(Item{}, visit)));
  }
  template <typename Item, typename Visit>
  void objects(const Field& field, const std::vector<Item>& /*value*/, Visit visit) {
    add(field, fmt::format(R"({{"type": "array", "items": {}}})", nest(Item{}, visit)));
  }

 private:
  static std::vector<std::string> causes() {
    std::vector<std::string> names;
    for (std::size_t index = 0; index < kOomCauseCount; ++index) {
      names.emplace_back(to_string(static_cast<OomCause>(index)));
    }
    return names;
  }

  template <typename Item, typename Visit>
  std::string nest(const Item& item, Visit visit) {
    Definition definition{.name = definition_name(item), .rules = {}};
    Walker walker(definition.rules, nested_);
    visit(walker, item);
    nested_.push_back(definition);
    return reference(definition.name);
  }

  std::vector<Rule>& rules_;
  std::vector<Definition>& nested_;
};

// The rules of one visit, and nothing of what is nested.
template <typename Visit>
std::vector<Rule> rules_of(Visit visit) {
  std::vector<Rule> rules;
  std::vector<Definition> nested;
  Walker walker(rules, nested);
  visit(walker);
  return rules;
}

void add_head(Walker& walker, const char* kind) {
  walker.add(fields::kKind, fmt::format(R"({{"const": "{}"}})", kind));
  walker.add(fields::kVersion, R"({"type": "string", "pattern": "^1\\.[0-9]+\\.[0-9]+$"})");
}

void walk_environment(Walker& walker) {
  const Environment environment;
  add_head(walker, "environment");
  fields::visit_environment(walker, environment);
}

void walk_key(Walker& walker) {
  const CellKey key;
  add_head(walker, "cell");
  walker.add(fields::kCellId, R"({"type": "string", "pattern": "^[0-9a-f]{16}$"})");
  fields::visit_key(walker, key);
}

void walk_end(Walker& walker) {
  const CellResult cell;
  fields::visit_program(walker, cell);
  fields::visit_findings(walker, cell);
  walker.add(fields::kUnsupported, kTexts);
}

void walk_cell(Walker& walker) {
  const CellResult cell;
  walk_key(walker);
  fields::visit_outcome(walker, cell);
  fields::visit_oom(walker, cell);
  fields::visit_memory(walker, cell);
  fields::visit_calls(walker, cell);
  fields::visit_latencies(walker, cell);
  walk_end(walker);
}

std::string required_text(const std::vector<Rule>& rules) {
  constexpr std::size_t kWidth = 100;
  std::string text;
  std::string line = "       ";
  for (const Rule& rule : rules) {
    if (rule.field.since_minor > 0) continue;
    const std::string name = fmt::format(" \"{}\",", rule.field.name);
    if (line.size() + name.size() > kWidth) {
      text += line + '\n';
      line = "       ";
    }
    line += name;
  }
  line.pop_back();
  return text + line + '\n';
}

std::string definition_text(const Definition& definition) {
  std::vector<std::string> lines;
  for (const Rule& rule : definition.rules) {
    lines.push_back(fmt::format("        \"{}\": {}", rule.field.name, rule.rule));
  }
  return fmt::format(
      "    \"{}\": {{\n      \"type\": \"object\",\n      \"properties\": {{\n{}\n      }},\n"
      "      \"required\": [\n{}      ],\n      \"additionalProperties\": false\n    }}",
      definition.name, fmt::join(lines, ",\n"), required_text(definition.rules));
}

// Names end with their unit and its qualifiers.
std::string_view unit_of(std::string_view name) {
  if (name.find("_share") != name.npos) return "share";
  if (name.find("_ns_") != name.npos || name.ends_with("_ns")) return "ns";
  if (name.find("_bytes") != name.npos) return "bytes";
  return name.ends_with("_s") ? "s" : "";
}

std::string table_text(const std::vector<Rule>& rules) {
  std::string text = "| field | unit | meaning |\n| :-- | :-- | :-- |\n";
  std::set<std::string> seen;
  for (const auto& [field, rule] : rules) {
    const std::string& name = field.row.empty() ? field.name : field.row;
    if (!seen.insert(name).second) continue;
    text +=
        fmt::format("| `{}` | {} | {}{} |\n", name, unit_of(name), field.meaning,
                    field.since_minor > 0 ? fmt::format(". Since schema 1.{}", field.since_minor)
                                          : std::string());
  }
  return text;
}

template <typename Item, typename Visit>
FieldTable table_of(const char* heading, const Item& item, Visit visit) {
  return {heading, table_text(rules_of([&](Walker& walker) { visit(walker, item); }))};
}

}  // namespace

std::string schema_text() {
  std::vector<Definition> nested;
  std::vector<Definition> all{{"environment", {}}, {"cell", {}}};
  Walker environment(all[0].rules, nested);
  walk_environment(environment);
  Walker cell(all[1].rules, nested);
  walk_cell(cell);
  all.insert(all.end(), nested.begin(), nested.end());
  std::vector<std::string> texts;
  for (const Definition& definition : all) texts.push_back(definition_text(definition));
  const char* const count = R"("minimum": 0, "maximum": 18446744073709551615})";
  return fmt::format(
      R"({{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "urn:allocmark:results:1",
  "title": "One line of an allocmark results.jsonl",
  "description": "Schema {}. The first line is an environment, every other line a cell. results/DEFINITIONS.md defines every field. A reader of 1.x should accept keys it does not know from a newer minor version. Made from results/fields.h by scripts/check/approve_goldens.sh.",
  "oneOf": [{{"$ref": "#/$defs/environment"}}, {{"$ref": "#/$defs/cell"}}],
  "$defs": {{
    "count": {{"type": "integer", {},
    "count_or_null": {{"type": ["integer", "null"], {},
    "real_or_null": {{"type": ["number", "null"]}},
    "histogram_or_null": {{"type": ["array", "null"], "items": {{"$ref": "#/$defs/count"}}}},
{}
  }}
}}
)",
      kSchemaVersion, count, count, fmt::join(texts, ",\n"));
}

std::vector<FieldTable> field_tables() {
  const CellResult cell;
  return {
      {"Fields of the environment", table_text(rules_of(walk_environment))},
      {"What names a cell", table_text(rules_of(walk_key))},
      table_of("How it ended", cell,
               [](Walker& walker, const CellResult& of) { fields::visit_outcome(walker, of); }),
      table_of("Out of memory", cell,
               [](Walker& walker, const CellResult& of) { fields::visit_oom(walker, of); }),
      table_of("Memory", cell,
               [](Walker& walker, const CellResult& of) {
                 fields::visit_memory(walker, of);
                 fields::visit_calls(walker, of);
               }),
      table_of("Latency", cell,
               [](Walker& walker, const CellResult& of) { fields::visit_latencies(walker, of); }),
      {"Steps and program time", table_text(rules_of(walk_end))},
      table_of("Fields of requests", RequestLatency{},
               [](Walker& walker, const auto& of) { fields::visit_requests(walker, of); }),
      table_of("Fields of oom_first", OomEvent{},
               [](Walker& walker, const auto& of) { fields::visit_oom_event(walker, of); }),
      table_of("Fields of growth", MemoryGrowth{},
               [](Walker& walker, const auto& of) { fields::visit_growth(walker, of); }),
      table_of("Fields of size_classes", SizeClassLatency{},
               [](Walker& walker, const auto& of) { fields::visit_size_class(walker, of); }),
      table_of("Fields of passes", PassSummary{},
               [](Walker& walker, const auto& of) { fields::visit_pass(walker, of); })};
}

std::string with_tables(std::string page, const std::vector<FieldTable>& tables) {
  for (const FieldTable& one : tables) {
    const std::size_t heading = page.find("# " + one.heading + "\n");
    if (heading == page.npos) throw std::runtime_error("no heading: " + one.heading);
    const std::size_t begin = page.find("\n| ", heading);
    if (begin == page.npos || page.find("\n#", heading + 2) < begin) {
      throw std::runtime_error("no table below the heading: " + one.heading);
    }
    const std::size_t end = page.find("\n\n", begin);
    const std::size_t stop = end == page.npos ? page.size() : end + 1;
    page.replace(begin + 1, stop - begin - 1, one.table);
  }
  return page;
}

}  // namespace allocmark
