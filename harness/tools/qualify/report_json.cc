// See report_json.h.
#include "harness/tools/qualify/report_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "harness/tools/qualify/report_fields.h"

namespace allocmark::qualify {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<Verdict, 4> kVerdicts = {Verdict::Skip, Verdict::Pass, Verdict::Warn,
                                              Verdict::Fail};

// Adds every field to a JSON object.
class Writer {
 public:
  explicit Writer(OrderedJson& object) : object_(object) {}

  void text(const Field& field, const std::string& value) { object_[field.name] = value; }
  void derived(const Field& field, const std::string& value) { object_[field.name] = value; }
  void real(const Field& field, double value) { number(field, value); }
  void number(const Field& field, const std::optional<double>& value) {
    object_[field.name] = value && std::isfinite(*value) ? OrderedJson(*value) : OrderedJson();
  }
  template <typename Number>
  void count(const Field& field, Number value) {
    object_[field.name] = value;
  }
  void flag(const Field& field, bool value) { object_[field.name] = value; }
  void verdict(const Field& field, Verdict value) { object_[field.name] = to_string(value); }
  void direction(const Field& field, bool is_min) { object_[field.name] = is_min ? "min" : "max"; }
  void exit_code(const Field& field, ExitCode value) {
    object_[field.name] = static_cast<int>(value);
  }
  void document(const Field& field, const std::string& value) {
    object_[field.name] = value.empty() ? OrderedJson() : parse_ordered_json(value);
  }
  template <typename Item, typename Visit>
  void object(const Field& field, const Item& item, Visit visit) {
    OrderedJson nested = OrderedJson::object();
    Writer writer(nested);
    visit(writer, item);
    object_[field.name] = std::move(nested);
  }
  template <typename Item, typename Visit>
  void objects(const Field& field, const std::vector<Item>& items, Visit visit) {
    OrderedJson list = OrderedJson::array();
    for (const Item& item : items) {
      OrderedJson nested = OrderedJson::object();
      Writer writer(nested);
      visit(writer, item);
      list.push_back(std::move(nested));
    }
    object_[field.name] = std::move(list);
  }

 private:
  OrderedJson& object_;
};

// What is no JSON is told with its own bytes, which may be no text.
std::string excerpt(const OrderedJson& json) {
  return json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace).substr(0, 60);
}

// Fills every field from a JSON object.
class Reader {
 public:
  Reader(const OrderedJson& object, const std::string& where, std::string prefix)
      : object_(object), where_(where), prefix_(std::move(prefix)) {}

  void text(const Field& field, std::string& value) {
    const OrderedJson& found = required(field);
    if (!found.is_string()) wrong(field, "a text", found);
    value = found.get<std::string>();
  }
  void derived(const Field& /*field*/, const std::string& /*value*/) {}
  void real(const Field& field, double& value) {
    const OrderedJson& found = required(field);
    if (!found.is_number()) wrong(field, "a number", found);
    value = found.get<double>();
  }
  void number(const Field& field, std::optional<double>& value) {
    const OrderedJson& found = required(field);
    if (!found.is_number() && !found.is_null()) wrong(field, "a number or null", found);
    value.reset();
    if (found.is_number()) value = found.get<double>();
  }
  template <typename Number>
  void count(const Field& field, Number& value) {
    const OrderedJson& found = required(field);
    if (!found.is_number_unsigned()) wrong(field, "a whole number, 0 or more", found);
    value = static_cast<Number>(found.get<std::uint64_t>());
  }
  void flag(const Field& field, bool& value) {
    const OrderedJson& found = required(field);
    if (!found.is_boolean()) wrong(field, "true or false", found);
    value = found.get<bool>();
  }
  void verdict(const Field& field, Verdict& value) {
    const OrderedJson& found = required(field);
    const auto known = std::find_if(kVerdicts.begin(), kVerdicts.end(), [&](Verdict verdict) {
      return found == OrderedJson(to_string(verdict));
    });
    if (known == kVerdicts.end()) wrong(field, "PASS, WARN, FAIL or SKIP", found);
    value = *known;
  }
  void direction(const Field& field, bool& is_min) {
    const OrderedJson& found = required(field);
    if (found != OrderedJson("min") && found != OrderedJson("max"))
      wrong(field, "min or max", found);
    is_min = found == OrderedJson("min");
  }
  void exit_code(const Field& field, ExitCode& value) {
    std::uint64_t number = 0;
    count(field, number);
    if (number > static_cast<std::uint64_t>(ExitCode::TimedOut)) {
      wrong(field, "an exit code", OrderedJson(number));
    }
    value = static_cast<ExitCode>(number);
  }
  void document(const Field& field, std::string& value) {
    const OrderedJson& found = required(field);
    if (!found.is_object() && !found.is_null()) wrong(field, "an object or null", found);
    value = found.is_null() ? "" : json_text(found);
  }
  template <typename Item, typename Visit>
  void object(const Field& field, Item& item, Visit visit) {
    read(required(field), prefix_ + field.name, item, visit);
  }
  template <typename Item, typename Visit>
  void objects(const Field& field, std::vector<Item>& items, Visit visit) {
    const OrderedJson& found = required(field);
    if (!found.is_array()) wrong(field, "a list", found);
    items.clear();
    for (std::size_t i = 0; i < found.size(); ++i) {
      read(found[i], fmt::format("{}{}[{}]", prefix_, field.name, i), items.emplace_back(), visit);
    }
  }

  [[noreturn]] void wrong(const Field& field, const std::string& wanted,
                          const OrderedJson& got) const {
    reject(prefix_ + field.name, wanted, excerpt(got));
  }

 private:
  [[noreturn]] void reject(const std::string& key, const std::string& wanted,
                           const std::string& got) const {
    throw UsageError({.what = "this is no qualification, or it is damaged",
                      .where = key.empty() ? where_ : where_ + ", " + key,
                      .wanted = wanted,
                      .got = got,
                      .next = "qualify that node again: allocmark qualify --out DIR"});
  }
  const OrderedJson& required(const Field& field) const {
    const auto found = object_.find(field.name);
    if (found == object_.end()) reject(prefix_ + field.name, "this key", "none");
    return *found;
  }
  template <typename Item, typename Visit>
  void read(const OrderedJson& found, const std::string& key, Item& item, Visit visit) const {
    if (!found.is_object()) reject(key, "an object", excerpt(found));
    Reader reader(found, where_, key + ".");
    visit(reader, item);
  }

  const OrderedJson& object_;
  const std::string& where_;
  std::string prefix_;
};

}  // namespace

std::string render_json_line(const TestResult& result) {
  OrderedJson json = OrderedJson::object();
  Writer writer(json);
  fields::visit_test(writer, result);
  return json_text(json);
}

std::string render_json(const Report& report) {
  OrderedJson json = OrderedJson::object();
  Writer writer(json);
  fields::visit_report(writer, report);
  return json_text(json, 1) + "\n";
}

Report report_from_json(std::string_view text, const std::string& where) {
  std::string problem;
  const OrderedJson json = parse_ordered_json(text, &problem);
  const OrderedJson object = json.is_object() ? json : OrderedJson::object();
  const Reader reader(object, where, "");
  if (json.is_discarded()) reader.wrong({"JSON"}, "a whole JSON object", OrderedJson(problem));
  if (object.value("kind", OrderedJson()) != OrderedJson(fields::kQualificationKind)) {
    reader.wrong({"kind"}, fields::kQualificationKind, object.value("kind", OrderedJson()));
  }
  const OrderedJson version = object.value("schema_version", OrderedJson());
  const std::string major = std::string(fields::kQualificationVersion).substr(0, 2);
  if (!version.is_string() || version.get<std::string>().compare(0, 2, major) != 0) {
    reader.wrong({"schema_version"}, major + "x", version);
  }
  Report report;
  Reader filler(object, where, "");
  fields::visit_report(filler, report);
  return report;
}

std::optional<std::int64_t> utc_seconds(const std::string& text) {
  std::tm parts{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return timegm(&parts);
}

}  // namespace allocmark::qualify
