// Writes result lines by walking the field list of results/fields.h with nlohmann-json on one side.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/assert.h"
#include "base/json_text.h"
#include "results/environment_fields.h"
#include "results/fields.h"
#include "results/json.h"
#include "results/unsupported.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Walks the fields of a struct and adds each to a JSON object.
class Writer {
 public:
  explicit Writer(OrderedJson& object) : object_(object) {}

  void text(const std::string& name, const std::string& value) { object_[name] = value; }
  void texts(const std::string& name, const std::vector<std::string>& value) {
    object_[name] = OrderedJson(value);
  }
  void boolean(const std::string& name, bool value) { object_[name] = value; }
  template <typename Integer>
  void integer(const std::string& name, Integer value) {
    object_[name] = value;
  }
  void optional_integer(const std::string& name, const std::optional<std::uint64_t>& value) {
    object_[name] = value ? OrderedJson(*value) : OrderedJson(nullptr);
  }
  void optional_text(const std::string& name, const std::string& value) {
    if (!value.empty()) object_[name] = value;
  }
  void known_integer(const std::string& name, std::uint64_t value) {
    object_[name] = value != 0 ? OrderedJson(value) : OrderedJson(nullptr);
  }
  void real(const std::string& name, double value) {
    object_[name] = std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
  }
  void known_real(const std::string& name, double value) {
    real(name, value == 0 ? std::numeric_limits<double>::quiet_NaN() : value);
  }
  void quantile(const std::string& name, std::uint64_t count, double value) {
    real(name, count == 0 ? std::numeric_limits<double>::quiet_NaN() : value);
  }
  void status(const std::string& name, CellStatus value) { object_[name] = to_string(value); }
  void cause(const std::string& name, OomCause value) { object_[name] = to_string(value); }
  void cause_counts(const std::string& prefix, const std::vector<std::uint64_t>& counts) {
    for (std::size_t cause = 0; cause < kOomCauseCount; ++cause) {
      object_[prefix + std::string(to_string(static_cast<OomCause>(cause)))] =
          cause < counts.size() ? counts[cause] : std::uint64_t{0};
    }
  }
  void counters(const std::string& name,
                const std::vector<std::pair<std::string, std::int64_t>>& values) {
    OrderedJson nested = OrderedJson::object();
    for (const auto& [key, value] : values) nested[key] = value;
    object_[name] = std::move(nested);
  }
  // [bucket, count, gap to the next bucket, count, ...]: gaps keep a line short.
  void histogram(const std::string& name, const LatencyBuckets& buckets) {
    OrderedJson list = OrderedJson::array();
    std::uint32_t before = 0;
    for (const LatencyBucket& bucket : buckets) {
      list.push_back(bucket.index - before);
      list.push_back(bucket.count);
      before = bucket.index;
    }
    object_[name] = buckets.empty() ? OrderedJson(nullptr) : std::move(list);
  }
  template <typename Item, typename Visit>
  void optional_object(const std::string& name, const std::optional<Item>& value, Visit visit) {
    object_[name] = value ? write(*value, visit) : OrderedJson(nullptr);
  }
  template <typename Item, typename Visit>
  void objects(const std::string& name, const std::vector<Item>& values, Visit visit) {
    OrderedJson list = OrderedJson::array();
    for (const Item& value : values) list.push_back(write(value, visit));
    object_[name] = std::move(list);
  }

 private:
  template <typename Item, typename Visit>
  static OrderedJson write(const Item& item, Visit visit) {
    OrderedJson nested = OrderedJson::object();
    Writer writer(nested);
    visit(writer, item);
    return nested;
  }

  OrderedJson& object_;
};

OrderedJson begin_line(const char* kind) {
  return OrderedJson{{fields::kKind.name, kind}, {fields::kVersion.name, kSchemaVersion}};
}

}  // namespace

std::string to_json_line(const Environment& environment) {
  OrderedJson object = begin_line("environment");
  Writer writer(object);
  fields::visit_environment(writer, environment);
  return json_text(object);
}

std::string to_json_line(const CellResult& cell) {
  ALLOCMARK_ASSERT(!cell.is_summary);
  OrderedJson object = begin_line("cell");
  object["cell_id"] = cell.key.id();
  Writer writer(object);
  fields::visit_cell(writer, cell);
  writer.texts(fields::kUnsupported, unsupported_quantiles(cell));
  return json_text(object);
}

std::string to_json_line(const CellKey& key) {
  OrderedJson object = begin_line("cell_key");
  object["cell_id"] = key.id();
  Writer writer(object);
  fields::visit_key(writer, key);
  return json_text(object);
}

}  // namespace allocmark
