// Reads result lines by walking the field list of results/fields.h with nlohmann-json on one side.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "results/cut_histograms.h"
#include "results/environment_fields.h"
#include "results/fields.h"
#include "results/json.h"
#include "results/schema_version.h"
#include "results/unsupported.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& where, std::string what, std::string wanted,
                       std::string got, std::string next) {
  throw UsageError({.what = std::move(what),
                    .where = where,
                    .wanted = std::move(wanted),
                    .got = std::move(got),
                    .next = std::move(next)});
}

// What the reader knows of the line it is in.
struct LineContext {
  std::string where;        // "results.jsonl:12"
  std::uint32_t minor = 0;  // the MINOR version that wrote it: a newer one has unknown keys
  // What was cut out of the line, by the number that stands there; null where nothing was.
  std::vector<LatencyBuckets>* histograms = nullptr;
  std::size_t taken_count = 0;  // of them, by fields
};

// Walks the fields of a struct and fills each from a JSON object; finish() then looks for unknown
// keys.
class Reader {
 public:
  Reader(const OrderedJson& object, LineContext& context, std::string prefix = {})
      : members_(*object.get_ptr<const OrderedJson::object_t*>()),
        context_(context),
        prefix_(std::move(prefix)),
        asked_(members_.size()) {}

  void text(const std::string& name, std::string& value) {
    const OrderedJson& found = required(name);
    if (!found.is_string()) wrong(name, "text", found);
    value = found.get<std::string>();
  }
  void text(const Field& field, std::string& value) {
    if (!lacks(field, value)) text(field.name, value);
  }
  void optional_text(const std::string& name, std::string& value) {
    value.clear();
    if (nullable(name) != nullptr) text(name, value);
  }
  void texts(const std::string& name, std::vector<std::string>& values) {
    const OrderedJson& found = required(name);
    if (!found.is_array()) wrong(name, "a list of texts", found);
    values.clear();
    for (const OrderedJson& item : found) {
      if (!item.is_string()) wrong(name, "a list of texts", item);
      values.push_back(item.get<std::string>());
    }
  }
  void boolean(const std::string& name, bool& value) {
    const OrderedJson& found = required(name);
    if (!found.is_boolean()) wrong(name, "true or false", found);
    value = found.get<bool>();
  }
  template <typename Integer>
  void integer(const std::string& name, Integer& value) {
    value = to_integer<Integer>(name, required(name));
  }
  template <typename Integer>
  void integer(const Field& field, Integer& value) {
    if (!lacks(field, value)) integer(field.name, value);
  }
  void optional_integer(const std::string& name, std::optional<std::uint64_t>& value) {
    value.reset();
    if (const OrderedJson* found = nullable(name)) value = to_integer<std::uint64_t>(name, *found);
  }
  void known_integer(const std::string& name, std::uint64_t& value) {
    const OrderedJson* found = nullable(name);
    value = found ? to_integer<std::uint64_t>(name, *found) : 0;
  }
  void real(const Field& field, double& value) {
    value = to_real(field.name, std::numeric_limits<double>::quiet_NaN(), field.is_signed);
  }
  void known_real(const Field& field, double& value) {
    value = to_real(field.name, 0, field.is_signed);
  }
  void quantile(const std::string& name, std::uint64_t count, double& value) {
    value = to_real(name, count == 0 ? 0 : std::numeric_limits<double>::quiet_NaN());
  }
  void status(const std::string& name, CellStatus& value) {
    value = to_enum<CellStatus, kCellStatusCount>(name);
  }
  void cause(const std::string& name, OomCause& value) {
    value = to_enum<OomCause, kOomCauseCount>(name);
  }
  void cause_counts(const std::string& prefix, std::vector<std::uint64_t>& counts) {
    counts.assign(kOomCauseCount, 0);
    for (std::size_t cause = 0; cause < kOomCauseCount; ++cause) {
      const std::string name = prefix + std::string(to_string(static_cast<OomCause>(cause)));
      if (cause < 5 || nullable(name)) integer(name, counts[cause]);  // later ones: since 1.5
    }
  }
  void counters(const Field& name, std::vector<std::pair<std::string, std::int64_t>>& values) {
    if (lacks(name, values)) return;
    values.clear();
    const OrderedJson& found = required(name);
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
    const OrderedJson* found = nullable(name);
    if (found == nullptr) return;
    if (context_.histograms != nullptr && found->is_number_unsigned()) {
      const auto number = found->get<std::uint64_t>();
      if (number >= context_.histograms->size()) wrong(name, "a list", *found);
      buckets = std::move((*context_.histograms)[number]);
      ++context_.taken_count;
      return;
    }
    const char* wanted =
        "a list of bucket, count, gap, count, ... with counts and gaps above 0, of at "
        "most 2^40 samples in all";
    if (!found->is_array() || found->empty() || found->size() % 2 != 0) wrong(name, wanted, *found);
    std::uint64_t total = 0;
    for (std::size_t at = 0; at < found->size(); at += 2) {
      const auto gap = to_integer<std::uint32_t>(name, (*found)[at]);
      const auto count = to_integer<std::uint64_t>(name, (*found)[at + 1]);
      if (!add_bucket(gap, count, &total, &buckets)) wrong(name, wanted, *found);
    }
  }
  template <typename Item, typename Visit>
  void optional_object(const std::string& name, std::optional<Item>& value, Visit visit) {
    value.reset();
    if (const OrderedJson* found = nullable(name)) value = read<Item>(name, *found, visit);
  }
  template <typename Item, typename Visit>
  void objects(const std::string& name, std::vector<Item>& values, Visit visit) {
    const OrderedJson& found = required(name);
    if (!found.is_array()) wrong(name, "a list of objects", found);
    values.clear();
    for (std::size_t index = 0; index < found.size(); ++index) {
      values.push_back(read<Item>(fmt::format("{}[{}]", name, index), found[index], visit));
    }
  }

  void known(const std::string& name) { find(name); }

  // Texts that follow from what was read: of this version they must be the same.
  template <typename Make>
  void follows(const std::string& name, Make make) {
    const OrderedJson* const found = find(name);
    if (found == nullptr || context_.minor != our_schema_version().minor) return;
    if (*found != OrderedJson(make())) wrong(name, "what follows from the counts", *found);
  }

  void finish() const {
    if (context_.minor > our_schema_version().minor) return;
    for (std::size_t index = 0; index < members_.size(); ++index) {
      if (asked_[index]) continue;
      const auto& [key, value] = members_[index];
      fail(context_.where, fmt::format("the key '{}' is not known", prefix_ + key),
           fmt::format("only keys of schema {}", kSchemaVersion), json_excerpt(value),
           "The file was edited by hand or is corrupt.");
    }
  }

 private:
  static bool too_large(const OrderedJson& value) {
    return value.get<std::uint64_t>() >
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }

  [[noreturn]] void wrong(const std::string& name, const std::string& wanted,
                          const OrderedJson& got) const {
    fail(context_.where, fmt::format("the value of '{}' is not as it must be", prefix_ + name),
         wanted, json_excerpt(got), "The line is corrupt; delete it and run that cell again.");
  }

  // The value of a key, which is then known; null where there is none. Keys mostly come in the
  // order in which they are asked for, so each is looked for from the last one on.
  const OrderedJson* find(const std::string& name) {
    for (std::size_t step = 0; step < asked_.size(); ++step) {
      const std::size_t index = (last_ + step) % asked_.size();
      const auto& [key, value] = members_[index];
      if (key != name) continue;
      asked_[index] = true;
      last_ = index;
      return &value;
    }
    return nullptr;
  }

  // Whether the line is older than the field; the value is the one of no result then.
  template <typename Value>
  bool lacks(const Field& field, Value& value) {
    if (field.since_minor <= context_.minor || find(field.name) != nullptr) return false;
    value = {};
    return true;
  }

  const OrderedJson& required(const std::string& name) {
    const OrderedJson* const found = find(name);
    if (found == nullptr) {
      fail(context_.where, fmt::format("the key '{}' is missing", prefix_ + name), {}, {},
           "The line is corrupt; delete it and run that cell again.");
    }
    return *found;
  }

  const OrderedJson* nullable(const std::string& name) {
    const OrderedJson* const found = find(name);
    return found == nullptr || found->is_null() ? nullptr : found;
  }

  template <typename Integer>
  Integer to_integer(const std::string& name, const OrderedJson& found) const {
    static_assert(std::is_unsigned_v<Integer>);
    constexpr std::uint64_t kMax = std::numeric_limits<Integer>::max();
    if (!found.is_number_unsigned() || found.get<std::uint64_t>() > kMax) {
      wrong(name, fmt::format("a whole number from 0 to {}", kMax), found);
    }
    return static_cast<Integer>(found.get<std::uint64_t>());
  }

  double to_real(const std::string& name, double absent, bool is_signed = false) {
    const OrderedJson* found = nullable(name);
    if (found == nullptr) return absent;
    const bool is_number = found->is_number();
    if (!is_number || (!is_signed && found->get<double>() < 0))
      wrong(name, is_signed ? "a number or null" : "a number from 0 on, or null", *found);
    return found->get<double>();
  }

  template <typename Enum, std::size_t Count>
  Enum to_enum(const std::string& name) {
    const OrderedJson& found = required(name);
    std::vector<std::string_view> names;
    for (std::size_t index = 0; index < Count; ++index) {
      names.push_back(to_string(static_cast<Enum>(index)));
      if (found.is_string() && found.get_ref<const std::string&>() == names.back()) {
        return static_cast<Enum>(index);
      }
    }
    wrong(name, fmt::format("one of {}", fmt::join(names, ", ")), found);
  }

  template <typename Item, typename Visit>
  Item read(const std::string& name, const OrderedJson& found, Visit visit) const {
    if (!found.is_object()) wrong(name, "an object", found);
    Item item;
    Reader reader(found, context_, prefix_ + name + ".");
    visit(reader, item);
    reader.finish();
    return item;
  }

  // A vector of pairs, where the library has it as a map in the order of the text.
  const std::span<const OrderedJson::object_t::value_type> members_;
  LineContext& context_;
  std::string prefix_;
  std::vector<bool> asked_;  // by the place of the key
  std::size_t last_ = 0;     // that was found
};

// Parses the line and checks its kind and version.
OrderedJson parse_line(std::string_view line, const char* kind, LineContext& context) {
  std::string problem;
  OrderedJson object = parse_ordered_json(line, &problem);
  if (object.is_discarded()) {
    fail(context.where, "the line is no whole JSON object (cut short or corrupt)", {}, problem,
         "Delete the line and run that cell again.");
  }
  if (!object.is_object()) {
    fail(context.where, "the line is no JSON object", "{\"kind\":...}", json_excerpt(object), {});
  }
  const OrderedJson found_kind = object.value("kind", OrderedJson(nullptr));
  if (found_kind != OrderedJson(kind)) {
    fail(context.where, "the line is of another kind", fmt::format("\"kind\":\"{}\"", kind),
         json_excerpt(found_kind), "Give a results.jsonl that allocmark wrote.");
  }
  const OrderedJson found_version = object.value("schema_version", OrderedJson(nullptr));
  const auto version = found_version.is_string()
                           ? parse_schema_version(found_version.get<std::string>())
                           : std::nullopt;
  const SchemaVersion ours = our_schema_version();
  if (!version || version->major != ours.major) {
    fail(context.where, "the results have another schema version",
         fmt::format("{}.x.y", ours.major), json_excerpt(found_version),
         "Results of different MAJOR versions are not comparable: run again, or use the allocmark "
         "that wrote them.");
  }
  context.minor = version->minor;
  return object;
}

// The parts that every line kind shares: parse, walk, compare the stored id, look for unknown keys.
template <typename Item, typename Visit, typename Id>
Item read_line(std::string_view line, LineContext& context, const char* kind, Visit visit, Id id) {
  const OrderedJson object = parse_line(line, kind, context);
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
      fail(context.where, "cell_id is not the hash of the cell's key", wanted_id,
           json_excerpt(OrderedJson(stored_id)), "The line was edited by hand or is corrupt.");
    }
  }
  reader.finish();
  return item;
}

CellResult read_cell(std::string_view line, LineContext& context) {
  return read_line<CellResult>(
      line, context, "cell",
      [](Reader& reader, CellResult& cell) {
        fields::visit_cell(reader, cell);
        reader.follows(fields::kUnsupported, [&] { return unsupported_quantiles(cell); });
      },
      [](const CellResult& cell) { return cell.key.id(); });
}

// The cell, where the line is as we write it.
std::optional<CellResult> read_quickly(std::string_view line, const std::string& where,
                                       std::uint32_t* schema_minor) {
  std::optional<CutLine> cut = cut_histograms(line);
  if (!cut || cut->histograms.empty()) return std::nullopt;
  LineContext context{.where = where, .histograms = &cut->histograms};
  try {
    CellResult cell = read_cell(cut->text, context);
    *schema_minor = context.minor;
    if (context.taken_count == cut->histograms.size()) return cell;
  } catch (const UsageError&) {
    // What is wrong is said of the line as it stands.
  }
  return std::nullopt;
}

}  // namespace

Environment environment_from_json(std::string_view line, const std::string& where) {
  LineContext context{.where = where};
  return read_line<Environment>(
      line, context, "environment",
      [](Reader& reader, Environment& environment) {
        reader.text("schema_version", environment.schema_version);
        fields::visit_environment(reader, environment);
      },
      [](const Environment&) { return std::string{}; });
}

CellResult cell_result_from_json(std::string_view line, const std::string& where,
                                 std::uint32_t* schema_minor) {
  LineContext context{.where = where};
  std::optional<CellResult> cell = read_quickly(line, where, &context.minor);
  if (!cell) cell = read_cell(line, context);
  if (schema_minor != nullptr) *schema_minor = context.minor;
  return *std::move(cell);
}

CellKey cell_key_from_json(std::string_view line, const std::string& where) {
  LineContext context{.where = where};
  return read_line<CellKey>(
      line, context, "cell_key",
      [](Reader& reader, CellKey& key) { fields::visit_key(reader, key); },
      [](const CellKey& key) { return key.id(); });
}

}  // namespace allocmark
