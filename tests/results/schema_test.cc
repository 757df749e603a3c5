// Goal: the published schema, what is really written and what is documented are the same. Method: a
// validator of just the JSON Schema keywords that schema.json uses (any other keyword fails the
// test), real lines in every state, and the field tables of results/DEFINITIONS.md.
#include <algorithm>
#include <cstddef>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "results/derived.h"
#include "results/json.h"
#include "tests/catch.h"
#include "tests/support/golden.h"
#include "tests/support/sample_run.h"

using namespace allocmark;
using nlohmann::json;

namespace {

const json& schema() {
  static const json kSchema = json::parse(read_golden("results/schema.json"));
  return kSchema;
}

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  throw std::logic_error("unknown type in schema.json: " + type);
}

std::string check(const json& rule, const json& value, const std::string& path);

std::string check_object(const json& rule, const json& value, const std::string& path) {
  for (const json& name : rule.value("required", json::array())) {
    if (!value.contains(name)) return path + ": lacks " + name.get<std::string>();
  }
  const json properties = rule.value("properties", json::object());
  for (const auto& [key, item] : value.items()) {
    const json& item_rule =
        properties.contains(key) ? properties[key] : rule.value("additionalProperties", json(true));
    if (item_rule == json(false)) return path + ": has " + key;
    if (item_rule == json(true)) continue;
    const std::string error = check(item_rule, item, path + "/" + key);
    if (!error.empty()) return error;
  }
  return {};
}

std::string check_any(const json& rules, const json& value, const std::string& path) {
  std::string errors;
  for (const json& rule : rules) {
    const std::string error = check(rule, value, path);
    if (error.empty()) return {};
    errors += error + "; ";
  }
  return errors;
}

std::string check_keyword(const std::string& keyword, const json& rule, const json& value,
                          const std::string& path) {
  const json& wanted = rule[keyword];
  bool good = true;
  if (keyword == "$ref") {
    return check(schema().at(json::json_pointer(wanted.get<std::string>().substr(1))), value, path);
  }
  if (keyword == "oneOf" || keyword == "anyOf") return check_any(wanted, value, path);
  if (keyword == "properties") return value.is_object() ? check_object(rule, value, path) : "";
  if (keyword == "items" && value.is_array()) {
    for (const json& item : value) {
      const std::string error = check(wanted, item, path + "/[]");
      if (!error.empty()) return error;
    }
  } else if (keyword == "type") {
    const json types = wanted.is_array() ? wanted : json::array({wanted});
    good = std::any_of(types.begin(), types.end(),
                       [&](const json& type) { return has_type(value, type); });
  } else if (keyword == "enum") {
    good = std::find(wanted.begin(), wanted.end(), value) != wanted.end();
  } else if (keyword == "const") {
    good = value == wanted;
  } else if (keyword == "minimum") {
    good = !value.is_number() || value >= wanted;
  } else if (keyword == "maximum") {
    good = !value.is_number() || value <= wanted;
  } else if (keyword == "pattern") {
    good = std::regex_search(value.get<std::string>(), std::regex(wanted.get<std::string>()));
  } else if (keyword == "required" || keyword == "additionalProperties") {
    // Checked with "properties", which stands beside them, but for objects without any.
    if (!rule.contains("properties")) return check_object(rule, value, path);
  } else if (keyword != "items" && keyword != "$schema" && keyword != "$id" && keyword != "$defs" &&
             keyword != "title" && keyword != "description") {
    throw std::logic_error("the test does not know the keyword " + keyword);
  }
  return good ? std::string() : path + ": breaks " + keyword + " with " + value.dump();
}

// Empty where the value keeps the rule, else where and how it does not.
std::string check(const json& rule, const json& value, const std::string& path) {
  for (const auto& [keyword, wanted] : rule.items()) {
    const std::string error = check_keyword(keyword, rule, value, path);
    if (!error.empty()) return error;
  }
  return {};
}

// The line with what the schema requires of it alone, as the first version wrote it.
json oldest(const json& value, const json& rule) {
  if (rule.contains("$ref")) {
    const auto to = rule["$ref"].get<std::string>().substr(1);
    return oldest(value, schema().at(json::json_pointer(to)));
  }
  if (rule.contains("anyOf") && !value.is_null()) return oldest(value, rule["anyOf"][0]);
  if (value.is_array() && rule.contains("items")) {
    json items = json::array();
    for (const json& item : value) items.push_back(oldest(item, rule["items"]));
    return items;
  }
  if (!value.is_object() || !rule.contains("properties")) return value;
  json kept = json::object();
  for (const json& name : rule["required"])
    kept[name] = oldest(value[name], rule["properties"][name]);
  return kept;
}

std::string check_line(const std::string& line) { return check(schema(), json::parse(line), ""); }

// "a_{b,c}_d" as "a_b_d" and "a_c_d".
std::vector<std::string> expand(const std::string& name) {
  const std::size_t open = name.find('{');
  if (open == std::string::npos) return {name};
  const std::size_t close = name.find('}', open);
  REQUIRE(close != std::string::npos);
  std::vector<std::string> names;
  for (std::size_t begin = open + 1; begin <= close;) {
    const std::size_t end = std::min(name.find(',', begin), close);
    const std::string choice = name.substr(begin, end - begin);
    for (const std::string& rest : expand(name.substr(close + 1))) {
      names.push_back(name.substr(0, open) + choice + rest);
    }
    begin = end + 1;
  }
  return names;
}

// The names in the first column of the tables between a README heading and the next one of the same
// level.
std::set<std::string> documented(const std::string& heading,
                                 const std::string& page = "results/DEFINITIONS.md") {
  const std::string text = read_golden(page);
  const std::size_t begin = text.find("\n## " + heading + "\n");
  REQUIRE(begin != std::string::npos);
  const std::string section = text.substr(begin, text.find("\n## ", begin + 4) - begin);
  std::set<std::string> names;
  const std::regex row("\n\\| `([^`]+)`((?:, `[^`]+`)*) \\|");
  const std::regex name("`([^`]+)`");
  for (std::sregex_iterator at(section.begin(), section.end(), row), end; at != end; ++at) {
    const std::string column = at->str();
    for (std::sregex_iterator found(column.begin(), column.end(), name); found != end; ++found) {
      for (const std::string& expanded : expand((*found)[1])) {
        INFO(expanded << " is documented twice");
        CHECK(names.insert(expanded).second);
      }
    }
  }
  return names;
}

std::set<std::string> properties(const std::string& definition) {
  std::set<std::string> names;
  for (const auto& [name, rule] : schema()["$defs"][definition]["properties"].items()) {
    names.insert(name);
  }
  return names;
}

}  // namespace

TEST_CASE("every line that is written keeps the published schema") {
  CHECK(check_line(to_json_line(sample::environment())) == "");
  CHECK(check_line(to_json_line(Environment{})) == "");
  CHECK(check_line(to_json_line(sample::cell())) == "");
  CHECK(check_line(to_json_line(CellResult{})) == "");
  for (const CellResult& cell : sample::run()) CHECK(check_line(to_json_line(cell)) == "");
}

TEST_CASE("the schema refuses what no line may be") {
  const json good = json::parse(to_json_line(sample::cell()));
  REQUIRE(check(schema(), good, "").empty());
  const auto broken = [&](const char* pointer, const json& value) {
    json line = good;
    line[json::json_pointer(pointer)] = value;
    INFO(pointer);
    return !check(schema(), line, "").empty();
  };
  CHECK(broken("/oom_count", -1));
  CHECK(broken("/oom_count", 1.5));
  CHECK(broken("/oom_count", nullptr));
  CHECK(broken("/status", "fine"));
  CHECK(broken("/new_key", 1));
  CHECK(broken("/oom_first/new_key", 1));
  CHECK(broken("/oom_first/cause", "bad luck"));
  CHECK(broken("/counters/x", 1.5));
  CHECK(broken("/warnings", "text"));
  CHECK(broken("/size_classes/0/size_class", 1));
  CHECK(broken("/schema_version", "2.0.0"));
  CHECK(broken("/cell_id", "0123"));
  json line = good;
  line.erase("reserved_bytes_peak");
  CHECK_FALSE(check(schema(), line, "").empty());
}

TEST_CASE("the schema and the written lines have the same keys") {
  for (const char* kind : {"environment", "cell"}) {
    const json line =
        json::parse(std::string(kind) == "cell" ? to_json_line(sample::cell())
                                                : to_json_line(sample::environment()));
    std::set<std::string> keys;
    for (const auto& [key, value] : line.items()) keys.insert(key);
    CHECK(keys == properties(kind));
  }
}

TEST_CASE("every field of the schema is documented, and nothing else") {
  CHECK(documented("Fields of the environment") == properties("environment"));
  CHECK(documented("Fields of a cell") == properties("cell"));
  CHECK(documented("Fields of oom_first") == properties("oom_event"));
  CHECK(documented("Fields of growth") == properties("growth"));
  CHECK(documented("Fields of requests") == properties("requests"));
  CHECK(documented("Fields of size_classes") == properties("size_class"));
  CHECK(documented("Fields of passes") == properties("pass"));
}

TEST_CASE("every derived number is documented") {
  const std::set<std::string> names = documented("Derived numbers");
  for (const DerivedNumber& derived : derived_numbers()) {
    INFO(derived.name);
    CHECK(names.contains(std::string(derived.name)));
  }
  CHECK(names.size() == derived_numbers().size());
}

TEST_CASE("every status and cause is documented") {
  std::set<std::string> statuses;
  for (const json& name : schema()["$defs"]["cell"]["properties"]["status"]["enum"]) {
    statuses.insert(name);
  }
  CHECK(documented("Statuses") == statuses);
  std::set<std::string> causes;
  for (const json& name : schema()["$defs"]["oom_event"]["properties"]["cause"]["enum"]) {
    causes.insert(name);
  }
  CHECK(documented("OOM causes", "results/FAILURES.md") == causes);
}

TEST_CASE("a line of the first version lacks what came later, and is read") {
  CellResult unnamed = sample::cell();  // names of definitions came later
  unnamed.key.workload_definition.clear();
  unnamed.key.workload_files.clear();
  unnamed.key.conf_definition.clear();
  json cell = oldest(json::parse(to_json_line(unnamed)), {{"$ref", "#/$defs/cell"}});
  cell["schema_version"] = "1.0.0";
  const CellResult read = cell_result_from_json(cell.dump(), "r.jsonl:2");
  CHECK(read.oom_count == sample::cell().oom_count);
  CHECK(read.failed_before_count == 0);
  CHECK(read.contents_placement_hash.empty());
  json environment =
      oldest(json::parse(to_json_line(sample::environment())), {{"$ref", "#/$defs/environment"}});
  environment["schema_version"] = "1.0.0";
  CHECK(environment_from_json(environment.dump(), "r.jsonl:1").schema_version == "1.0.0");
}

TEST_CASE("a line of a version that has a field may lack it only where it can be null") {
  json cell = json::parse(to_json_line(sample::cell()));
  cell.erase("failed_again_count");
  CHECK_THROWS_AS(cell_result_from_json(cell.dump(), "r.jsonl:2"), UsageError);
  cell["schema_version"] = "1.11.0";
  CHECK(cell_result_from_json(cell.dump(), "r.jsonl:2").failed_again_count == 0);
}
