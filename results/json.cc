// Writes and reads result lines by walking the field list of results/fields.h with nlohmann-json on
// one side.
#include "results/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "results/environment_fields.h"
#include "results/fields.h"
#include "results/latency_histogram.h"
#include "results/unsupported.h"

namespace allocmark {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 7> kStatusNames{
    "ok", "oom_stopped", "skipped", "failed", "crashed", "timed_out", "interrupted"};
constexpr std::array<std::string_view, kOomCauseCount> kCauseNames{
    "capacity", "rounding", "stranded", "fragmentation", "unknown", "pending"};

template <typename Enum, std::size_t Count>
std::optional<Enum> find_name(const std::array<std::string_view, Count>& names,
                              std::string_view text) {
  for (std::size_t index = 0; index < Count; ++index) {
    if (names[index] == text) return static_cast<Enum>(index);
  }
  return std::nullopt;
}

// Walks the fields of a struct and adds each to a JSON object.
class Writer {
 public:
  explicit Writer(Json& object) : object_(object) {}

  void text(const std::string& name, const std::string& value) { object_[name] = value; }
  void texts(const std::string& name, const std::vector<std::string>& value) {
    object_[name] = Json(value);
  }
  void boolean(const std::string& name, bool value) { object_[name] = value; }
  template <typename Integer>
  void integer(const std::string& name, Integer value) {
    object_[name] = value;
  }
  void optional_integer(const std::string& name, const std::optional<std::uint64_t>& value) {
    object_[name] = value ? Json(*value) : Json(nullptr);
  }
  void optional_text(const std::string& name, const std::string& value) {
    if (!value.empty()) object_[name] = value;
  }
  void known_integer(const std::string& name, std::uint64_t value) {
    object_[name] = value != 0 ? Json(value) : Json(nullptr);
  }
  void real(const std::string& name, double value) {
    object_[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
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
      object_[prefix + std::string(kCauseNames[cause])] =
          cause < counts.size() ? counts[cause] : std::uint64_t{0};
    }
  }
  void counters(const std::string& name,
                const std::vector<std::pair<std::string, std::int64_t>>& values) {
    Json nested = Json::object();
    for (const auto& [key, value] : values) nested[key] = value;
    object_[name] = std::move(nested);
  }
  // [bucket, count, gap to the next bucket, count, ...]: gaps keep a line short.
  void histogram(const std::string& name, const LatencyBuckets& buckets) {
    Json list = Json::array();
    std::uint32_t before = 0;
    for (const LatencyBucket& bucket : buckets) {
      list.push_back(bucket.index - before);
      list.push_back(bucket.count);
      before = bucket.index;
    }
    object_[name] = buckets.empty() ? Json(nullptr) : std::move(list);
  }
  template <typename Item, typename Visit>
  void optional_object(const std::string& name, const std::optional<Item>& value, Visit visit) {
    object_[name] = value ? write(*value, visit) : Json(nullptr);
  }
  template <typename Item, typename Visit>
  void objects(const std::string& name, const std::vector<Item>& values, Visit visit) {
    Json list = Json::array();
    for (const Item& value : values) list.push_back(write(value, visit));
    object_[name] = std::move(list);
  }

 private:
  template <typename Item, typename Visit>
  static Json write(const Item& item, Visit visit) {
    Json nested = Json::object();
    Writer writer(nested);
    visit(writer, item);
    return nested;
  }

  Json& object_;
};

[[noreturn]] void fail(const std::string& where, std::string what, std::string wanted,
                       std::string got, std::string next) {
  throw UsageError({.what = std::move(what),
                    .where = where,
                    .wanted = std::move(wanted),
                    .got = std::move(got),
                    .next = std::move(next)});
}

std::string excerpt(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// What the reader knows of the line it is in.
struct LineContext {
  std::string where;           // "results.jsonl:12"
  bool newer_version = false;  // written by a newer MINOR version, so unknown keys are expected
};

// Walks the fields of a struct and fills each from a JSON object; finish() then looks for unknown
// keys.
class Reader {
 public:
  Reader(const Json& object, const LineContext& context, std::string prefix = {})
      : object_(object), context_(context), prefix_(std::move(prefix)) {}

  void text(const std::string& name, std::string& value) {
    const Json& found = required(name);
    if (!found.is_string()) wrong(name, "text", found);
    value = found.get<std::string>();
  }
  void optional_text(const std::string& name, std::string& value) {
    value.clear();
    if (nullable(name) != nullptr) text(name, value);
  }
  void texts(const std::string& name, std::vector<std::string>& values) {
    const Json& found = required(name);
    if (!found.is_array()) wrong(name, "a list of texts", found);
    values.clear();
    for (const Json& item : found) {
      if (!item.is_string()) wrong(name, "a list of texts", item);
      values.push_back(item.get<std::string>());
    }
  }
  void boolean(const std::string& name, bool& value) {
    const Json& found = required(name);
    if (!found.is_boolean()) wrong(name, "true or false", found);
    value = found.get<bool>();
  }
  template <typename Integer>
  void integer(const std::string& name, Integer& value) {
    value = to_integer<Integer>(name, required(name));
  }
  void optional_integer(const std::string& name, std::optional<std::uint64_t>& value) {
    value.reset();
    if (const Json* found = nullable(name)) value = to_integer<std::uint64_t>(name, *found);
  }
  void known_integer(const std::string& name, std::uint64_t& value) {
    const Json* found = nullable(name);
    value = found ? to_integer<std::uint64_t>(name, *found) : 0;
  }
  void real(const std::string& name, double& value) {
    value = to_real(name, std::numeric_limits<double>::quiet_NaN());
  }
  void known_real(const std::string& name, double& value) { value = to_real(name, 0); }
  void quantile(const std::string& name, std::uint64_t count, double& value) {
    value = to_real(name, count == 0 ? 0 : std::numeric_limits<double>::quiet_NaN());
  }
  void status(const std::string& name, CellStatus& value) {
    value = to_enum<CellStatus>(name, kStatusNames);
  }
  void cause(const std::string& name, OomCause& value) {
    value = to_enum<OomCause>(name, kCauseNames);
  }
  void cause_counts(const std::string& prefix, std::vector<std::uint64_t>& counts) {
    counts.assign(kOomCauseCount, 0);
    for (std::size_t cause = 0; cause < kOomCauseCount; ++cause) {
      const std::string name = prefix + std::string(kCauseNames[cause]);
      if (cause < 5 || nullable(name)) integer(name, counts[cause]);  // later ones: since 1.5
    }
  }
  void counters(const Field& name, std::vector<std::pair<std::string, std::int64_t>>& values) {
    values.clear();
    // Lines of an older MINOR version lack it.
    if (name.since_minor > 0 && nullable(name) == nullptr) return;
    const Json& found = required(name);
    if (!found.is_object()) wrong(name, "an object of whole numbers", found);
    for (const auto& [key, value] : found.items()) {
      if (!value.is_number_integer() || (value.is_number_unsigned() && too_large(value))) {
        wrong(name.name + "." + key, "a whole number of 64 bits", value);
      }
      values.emplace_back(key, value.get<std::int64_t>());
    }
  }
  void histogram(const std::string& name, LatencyBuckets& buckets) {
    buckets.clear();
    const Json* found = nullable(name);
    if (found == nullptr) return;
    const char* wanted = "a list of bucket, count, gap, count, ... with counts and gaps above 0";
    if (!found->is_array() || found->empty() || found->size() % 2 != 0) wrong(name, wanted, *found);
    std::uint64_t total = 0;
    for (std::size_t at = 0; at < found->size(); at += 2) {
      const auto gap = to_integer<std::uint32_t>(name, (*found)[at]);
      const auto count = to_integer<std::uint64_t>(name, (*found)[at + 1]);
      const std::uint32_t before = buckets.empty() ? 0 : buckets.back().index;
      const bool goes_on = gap > 0 || buckets.empty();
      if (!goes_on || gap >= kLatencyBucketCount - before) wrong(name, wanted, *found);
      if (count == 0 || count > std::numeric_limits<std::uint64_t>::max() - total) {
        wrong(name, wanted, *found);
      }
      total += count;
      buckets.push_back({.index = before + gap, .count = count});
    }
  }
  template <typename Item, typename Visit>
  void optional_object(const std::string& name, std::optional<Item>& value, Visit visit) {
    value.reset();
    if (const Json* found = nullable(name)) value = read<Item>(name, *found, visit);
  }
  template <typename Item, typename Visit>
  void objects(const std::string& name, std::vector<Item>& values, Visit visit) {
    const Json& found = required(name);
    if (!found.is_array()) wrong(name, "a list of objects", found);
    values.clear();
    for (std::size_t index = 0; index < found.size(); ++index) {
      values.push_back(read<Item>(fmt::format("{}[{}]", name, index), found[index], visit));
    }
  }

  void known(const std::string& name) { known_names_.insert(name); }

  void finish() const {
    if (context_.newer_version) return;
    for (const auto& [key, value] : object_.items()) {
      if (known_names_.contains(key)) continue;
      fail(context_.where, fmt::format("the key '{}' is not known", prefix_ + key),
           fmt::format("only keys of schema {}", kSchemaVersion), excerpt(value),
           "The file was edited by hand or is corrupt.");
    }
  }

 private:
  static bool too_large(const Json& value) {
    return value.get<std::uint64_t>() >
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }

  [[noreturn]] void wrong(const std::string& name, const std::string& wanted,
                          const Json& got) const {
    fail(context_.where, fmt::format("the value of '{}' is not as it must be", prefix_ + name),
         wanted, excerpt(got), "The line is corrupt; delete it and run that cell again.");
  }

  const Json& required(const std::string& name) {
    known(name);
    const auto found = object_.find(name);
    if (found == object_.end()) {
      fail(context_.where, fmt::format("the key '{}' is missing", prefix_ + name), {}, {},
           "The line is corrupt; delete it and run that cell again.");
    }
    return *found;
  }

  const Json* nullable(const std::string& name) {
    known(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  template <typename Integer>
  Integer to_integer(const std::string& name, const Json& found) const {
    static_assert(std::is_unsigned_v<Integer>);
    constexpr std::uint64_t kMax = std::numeric_limits<Integer>::max();
    if (!found.is_number_unsigned() || found.get<std::uint64_t>() > kMax) {
      wrong(name, fmt::format("a whole number from 0 to {}", kMax), found);
    }
    return static_cast<Integer>(found.get<std::uint64_t>());
  }

  double to_real(const std::string& name, double absent) {
    const Json* found = nullable(name);
    if (found == nullptr) return absent;
    if (!found->is_number()) wrong(name, "a number or null", *found);
    return found->get<double>();
  }

  template <typename Enum, std::size_t Count>
  Enum to_enum(const std::string& name, const std::array<std::string_view, Count>& names) {
    const Json& found = required(name);
    if (found.is_string()) {
      const auto value = find_name<Enum>(names, found.get<std::string>());
      if (value) return *value;
    }
    wrong(name, fmt::format("one of {}", fmt::join(names, ", ")), found);
  }

  template <typename Item, typename Visit>
  Item read(const std::string& name, const Json& found, Visit visit) const {
    if (!found.is_object()) wrong(name, "an object", found);
    Item item;
    Reader reader(found, context_, prefix_ + name + ".");
    visit(reader, item);
    reader.finish();
    return item;
  }

  const Json& object_;
  const LineContext& context_;
  std::string prefix_;
  std::set<std::string> known_names_;
};

std::string dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json begin_line(const char* kind) {
  return Json{{fields::kKind.name, kind}, {fields::kVersion.name, kSchemaVersion}};
}

struct Version {
  std::uint32_t major = 0, minor = 0;
};

// The MAJOR and MINOR of "1.2.3"; nothing for any other text.
std::optional<Version> parse_version(std::string_view text) {
  std::array<std::uint32_t, 3> parts{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const auto [next, error] = std::from_chars(at, end, parts[index]);
    if (error != std::errc{}) return std::nullopt;
    const bool last = index + 1 == parts.size();
    if (last ? next != end : (next == end || *next != '.')) return std::nullopt;
    at = last ? next : next + 1;
  }
  return Version{.major = parts[0], .minor = parts[1]};
}

// Parses the line and checks its kind and version.
Json parse_line(std::string_view line, const char* kind, LineContext& context) {
  std::string problem;
  Json object = parse_ordered_json(line, &problem);
  if (object.is_discarded()) {
    fail(context.where, "the line is no whole JSON object (cut short or corrupt)", {}, problem,
         "Delete the line and run that cell again.");
  }
  if (!object.is_object()) {
    fail(context.where, "the line is no JSON object", "{\"kind\":...}", excerpt(object), {});
  }
  const Json found_kind = object.value("kind", Json(nullptr));
  if (found_kind != Json(kind)) {
    fail(context.where, "the line is of another kind", fmt::format("\"kind\":\"{}\"", kind),
         excerpt(found_kind), "Give a results.jsonl that allocmark wrote.");
  }
  const Json found_version = object.value("schema_version", Json(nullptr));
  const auto version =
      found_version.is_string() ? parse_version(found_version.get<std::string>()) : std::nullopt;
  const Version ours = parse_version(kSchemaVersion).value_or(Version{});
  if (!version || version->major != ours.major) {
    fail(context.where, "the results have another schema version",
         fmt::format("{}.x.y", ours.major), excerpt(found_version),
         "Results of different MAJOR versions are not comparable: run again, or use the allocmark "
         "that wrote them.");
  }
  context.newer_version = version->minor > ours.minor;
  return object;
}

}  // namespace

std::string_view to_string(CellStatus status) {
  return kStatusNames.at(static_cast<std::size_t>(status));
}

std::optional<CellStatus> parse_cell_status(std::string_view text) {
  return find_name<CellStatus>(kStatusNames, text);
}

std::string_view to_string(OomCause cause) {
  return kCauseNames.at(static_cast<std::size_t>(cause));
}

std::optional<OomCause> parse_oom_cause(std::string_view text) {
  return find_name<OomCause>(kCauseNames, text);
}

std::string to_json_line(const Environment& environment) {
  Json object = begin_line("environment");
  Writer writer(object);
  fields::visit_environment(writer, environment);
  return dump(object);
}

std::string to_json_line(const CellResult& cell) {
  Json object = begin_line("cell");
  object["cell_id"] = cell.key.id();
  Writer writer(object);
  fields::visit_cell(writer, cell);
  writer.texts(fields::kUnsupported, unsupported_quantiles(cell));
  return dump(object);
}

std::string to_json_line(const CellKey& key) {
  Json object = begin_line("cell_key");
  object["cell_id"] = key.id();
  Writer writer(object);
  fields::visit_key(writer, key);
  return dump(object);
}

namespace {

// The parts that every line kind shares: parse, walk, compare the stored id, look for unknown keys.
template <typename Item, typename Visit, typename Id>
Item read_line(std::string_view line, const std::string& where, const char* kind, Visit visit,
               Id id) {
  LineContext context{.where = where};
  const Json object = parse_line(line, kind, context);
  Reader reader(object, context);
  reader.known("kind");
  reader.known("schema_version");
  Item item;
  visit(reader, item);
  const std::string wanted_id = id(item);
  if (!wanted_id.empty()) {
    std::string stored_id;
    reader.text("cell_id", stored_id);
    if (stored_id != wanted_id) {
      fail(where, "cell_id is not the hash of the cell's key", wanted_id, excerpt(Json(stored_id)),
           "The line was edited by hand or is corrupt.");
    }
  }
  reader.finish();
  return item;
}

}  // namespace

Environment environment_from_json(std::string_view line, const std::string& where) {
  return read_line<Environment>(
      line, where, "environment",
      [](Reader& reader, Environment& environment) {
        reader.text("schema_version", environment.schema_version);
        fields::visit_environment(reader, environment);
      },
      [](const Environment&) { return std::string{}; });
}

CellResult cell_result_from_json(std::string_view line, const std::string& where) {
  return read_line<CellResult>(
      line, where, "cell",
      [](Reader& reader, CellResult& cell) {
        // Follows from the counts, which are read.
        reader.known(fields::kUnsupported);
        fields::visit_cell(reader, cell);
      },
      [](const CellResult& cell) { return cell.key.id(); });
}

CellKey cell_key_from_json(std::string_view line, const std::string& where) {
  return read_line<CellKey>(
      line, where, "cell_key", [](Reader& reader, CellKey& key) { fields::visit_key(reader, key); },
      [](const CellKey& key) { return key.id(); });
}

std::optional<std::string> json_line_kind(std::string_view line) {
  const Json object = parse_ordered_json(line);
  if (!object.is_object()) return std::nullopt;
  const Json kind = object.value("kind", Json(nullptr));
  return kind.is_string() ? std::optional(kind.get<std::string>()) : std::nullopt;
}

}  // namespace allocmark
