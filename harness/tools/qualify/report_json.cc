// See report_json.h.
#include "harness/tools/qualify/report_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <functional>
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
    object_[field.name] = json_of(item, visit);
  }
  template <typename Item, typename Visit>
  void objects(const Field& field, const std::vector<Item>& items, Visit visit) {
    OrderedJson list = OrderedJson::array();
    for (const Item& item : items) list.push_back(json_of(item, visit));
    object_[field.name] = std::move(list);
  }

  template <typename Item, typename Visit>
  static OrderedJson json_of(const Item& item, Visit visit) {
    OrderedJson object = OrderedJson::object();
    Writer writer(object);
    visit(writer, item);
    return object;
  }

 private:
  OrderedJson& object_;
};

// Fills every field from a JSON object.
class Reader {
 public:
  Reader(const OrderedJson& object, const std::string& where, std::string prefix)
      : object_(object), where_(where), prefix_(std::move(prefix)) {}

  void text(const Field& field, std::string& value) {
    value = required(field, "a text", &OrderedJson::is_string).get<std::string>();
  }
  void derived(const Field& /*field*/, const std::string& /*value*/) {}
  void real(const Field& field, double& value) {
    value = required(field, "a number", &OrderedJson::is_number).get<double>();
  }
  void number(const Field& field, std::optional<double>& value) {
    const auto is_so = [](const OrderedJson& json) { return json.is_number() || json.is_null(); };
    const OrderedJson& found = required(field, "a number or null", is_so);
    value = found.is_null() ? std::nullopt : std::optional(found.get<double>());
  }
  template <typename Number>
  void count(const Field& field, Number& value) {
    value = static_cast<Number>(
        required(field, "a whole number, 0 or more", &OrderedJson::is_number_unsigned)
            .template get<std::uint64_t>());
  }
  void flag(const Field& field, bool& value) {
    value = required(field, "true or false", &OrderedJson::is_boolean).get<bool>();
  }
  void verdict(const Field& field, Verdict& value) {
    const auto is_so = [&](const OrderedJson& json) {
      const auto known = std::ranges::find_if(
          kVerdicts, [&](Verdict each) { return json == OrderedJson(to_string(each)); });
      if (known != kVerdicts.end()) value = *known;
      return known != kVerdicts.end();
    };
    (void)required(field, "PASS, WARN, FAIL or SKIP", is_so);
  }
  void direction(const Field& field, bool& is_min) {
    const auto is_so = [&](const OrderedJson& json) {
      is_min = json == OrderedJson("min");
      return is_min || json == OrderedJson("max");
    };
    (void)required(field, "min or max", is_so);
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
    const auto is_so = [](const OrderedJson& json) { return json.is_object() || json.is_null(); };
    const OrderedJson& found = required(field, "an object or null", is_so);
    value = found.is_null() ? "" : json_text(found);
  }
  template <typename Item, typename Visit>
  void object(const Field& field, Item& item, Visit visit) {
    const auto any = [](const OrderedJson&) { return true; };
    read(required(field, "", any), prefix_ + field.name, item, visit);
  }
  template <typename Item, typename Visit>
  void objects(const Field& field, std::vector<Item>& items, Visit visit) {
    const OrderedJson& found = required(field, "a list", &OrderedJson::is_array);
    items.clear();
    for (std::size_t i = 0; i < found.size(); ++i) {
      read(found[i], fmt::format("{}{}[{}]", prefix_, field.name, i), items.emplace_back(), visit);
    }
  }

  [[noreturn]] void wrong(const Field& field, const std::string& wanted,
                          const OrderedJson& got) const {
    reject(prefix_ + field.name, wanted, json_excerpt(got));
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
  // The field's value; rejects one that is not so.
  template <typename IsSo>
  const OrderedJson& required(const Field& field, const char* wanted, const IsSo& is_so) const {
    const auto found = object_.find(field.name);
    if (found == object_.end()) reject(prefix_ + field.name, "this key", "none");
    if (!std::invoke(is_so, *found)) wrong(field, wanted, *found);
    return *found;
  }
  template <typename Item, typename Visit>
  void read(const OrderedJson& found, const std::string& key, Item& item, Visit visit) const {
    if (!found.is_object()) reject(key, "an object", json_excerpt(found));
    Reader reader(found, where_, key + ".");
    visit(reader, item);
  }

  const OrderedJson& object_;
  const std::string& where_;
  std::string prefix_;
};

}  // namespace

std::string render_json_line(const TestResult& result) {
  return json_text(Writer::json_of(
      result, [](Writer& writer, const auto& test) { fields::visit_test(writer, test); }));
}

std::string render_json(const Report& report) {
  const OrderedJson json = Writer::json_of(
      report, [](Writer& writer, const auto& whole) { fields::visit_report(writer, whole); });
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
