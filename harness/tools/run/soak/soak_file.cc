// See soak_file.h.
#include "harness/tools/run/soak/soak_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/field_count.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "results/json.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A new field is written below, both ways, or does not reach the other process.
static_assert(field_count<SoakSpec>() == 5 && field_count<SoakWindow>() == 14 &&
              field_count<SoakEnd>() == 3);

constexpr InputKind kSoakInput{.name = "a soak", .size_bytes_max = 64 * kMiB};

// Each number of a window with its key.
template <typename Window, typename Visit>
void visit_window(Window& window, Visit&& visit) {
  visit("end_s", window.end_s);
  visit("wall_s", window.wall_s);
  visit("pass_count", window.pass_count);
  visit("allocate_count", window.allocate_count);
  visit("oom_count", window.oom_count);
  visit("allocate_latency_ns_p50", window.allocate_p50_ns);
  visit("allocate_latency_ns_p99", window.allocate_p99_ns);
  visit("deallocate_latency_ns_p50", window.deallocate_p50_ns);
  visit("deallocate_latency_ns_p99", window.deallocate_p99_ns);
  visit("held_bytes", window.held_bytes);
  visit("device_bytes", window.device_bytes);
  visit("scattered_share", window.scattered_share);
  visit("device_call_count", window.device_call_count);
  visit("process_bytes", window.process_bytes);
}

SoakSpec spec_of(const OrderedJson& json, const std::string& where) {
  return {.key = cell_key_from_json(json_text(json.at("key")), where),
          .verify =
              parse_verify_level(json.at("verify").get<std::string>()).value_or(VerifyLevel::Edges),
          .seconds = json.at("seconds").get<double>(),
          .window_s = json.at("window_s").get<double>(),
          .begin_s = json.at("begin_s").get<double>()};
}

[[noreturn]] void refuse(const std::string& where, const std::string& reason) {
  throw UsageError({.what = "this is not what a soak writes",
                    .where = where,
                    .wanted = "the lines of 'allocmark run --for'",
                    .got = reason,
                    .next = "begin anew with another --out DIR"});
}

}  // namespace

std::string to_json_line(const SoakSpec& spec) {
  return json_text(OrderedJson{{"kind", "soak"},
                               {"schema_version", "1.0.0"},
                               {"key", parse_ordered_json(to_json_line(spec.key))},
                               {"verify", to_string(spec.verify)},
                               {"seconds", spec.seconds},
                               {"window_s", spec.window_s},
                               {"begin_s", spec.begin_s}});
}

std::string to_json_line(const SoakWindow& window) {
  OrderedJson json{{"kind", "window"}};
  visit_window(window, [&](const char* key, const auto& value) { json[key] = value; });
  return json_text(json);
}

std::string to_json_line(const SoakEnd& end) {
  OrderedJson warnings = OrderedJson::array();
  for (const std::string& warning : end.warnings) warnings.push_back(valid_utf8(warning));
  return json_text(OrderedJson{{"kind", "end"},
                               {"status", to_string(end.status)},
                               {"reason", valid_utf8(end.reason)},
                               {"warnings", warnings}});
}

void add_line(std::string_view line, const std::string& where, SoakRecord& record) {
  try {
    const OrderedJson json = parse_ordered_json(line);
    const auto kind = json.at("kind").get<std::string>();
    record.ended = kind == "end";
    if (kind == "soak") {
      record.spec = spec_of(json, where);
      record.begins.push_back(record.windows.size());
    } else if (kind == "window") {
      SoakWindow window;
      visit_window(window, [&](const char* key, auto& value) { json.at(key).get_to(value); });
      record.windows.push_back(window);
    } else if (kind == "end") {
      const auto status = parse_cell_status(json.at("status").get<std::string>());
      if (!status) refuse(where, "no such status: " + json_text(json.at("status")));
      record.end = {.status = *status, .reason = json.at("reason").get<std::string>()};
      if (json.contains("warnings")) json.at("warnings").get_to(record.end.warnings);
    } else {
      refuse(where, "a line of kind '" + kind + "'");
    }
  } catch (const OrderedJson::exception& error) {
    refuse(where, json_reason(error));
  }
}

SoakFile read_soak_file(const std::string& path) {
  SoakFile file;
  const std::string text = read_file(path, kSoakInput);
  std::size_t number = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', file.size_bytes)) {
    add_line(std::string_view(text).substr(file.size_bytes, end - file.size_bytes),
             fmt::format("{}:{}", path, ++number), file.record);
    file.size_bytes = end + 1;
  }
  if (file.record.begins.empty()) refuse(path, "no line that says what soaked");
  return file;
}

}  // namespace allocmark
