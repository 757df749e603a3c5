// The one way from JSON text to a value, and back. Text from outside flows in; a value flows out,
// or what is wrong with it and where. Nothing is thrown, and no text can take more time or memory
// than its limits allow: how deep it nests, how many values it has.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace allocmark {

struct JsonLimits {
  std::uint32_t depth_max = 64;
  std::uint64_t value_count_max = 2'000'000;
};

// The value; discarded where the text is not JSON, has a key twice in one object, or is beyond the
// limits. `problem`, where it is not null, then says so: "line 3, column 9: a key is there twice:
// 'seed'".
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string* problem = nullptr,
                                        const JsonLimits& limits = {});
// The same, and objects keep the order of their keys.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text,
                                                        std::string* problem = nullptr,
                                                        const JsonLimits& limits = {});

// The text of a value, in one line or with `indent` blanks a level. Bytes that are no UTF-8 are
// written as U+FFFD, what a terminal obeys as escapes: no text of a user ends or turns the program.
[[nodiscard]] std::string json_text(const nlohmann::json& json, int indent = -1);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& json, int indent = -1);
// Its beginning, for a message: in ASCII, as it may be no text.
[[nodiscard]] std::string json_excerpt(const nlohmann::ordered_json& json);
// The value; null where there is none.
[[nodiscard]] nlohmann::ordered_json number_or_null(const std::optional<double>& value);

// What a document is, for the error where it is not.
struct JsonSource {
  std::string where;   // a path
  std::string what;    // "this is not the plan of a run"
  std::string wanted;  // "the plan.json that 'allocmark run' writes"
  std::string next = {};
};
// As parse_json; throws UsageError where the text does not parse.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const JsonSource& source);

// The error of such a document: `got` says what is wrong in it.
[[noreturn]] void refuse_json(const JsonSource& source, std::string got);

// What an access to a missing key or to a value of another type threw, without the library's
// marks: "key 'title' not found".
[[nodiscard]] std::string json_reason(const std::exception& error);

}  // namespace allocmark
