// Builds the value from the library's events, so that limits and keys are looked at while the text
// is read and not after.
#include "base/json_text.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/streams.h"

namespace allocmark {
namespace {

constexpr std::size_t kShownMax = 40;

// The end of what was read last, on its own line.
std::string_view last_words(std::string_view token) {
  token.remove_prefix(token.size() - std::min(token.size(), kShownMax));
  constexpr std::string_view kNewline = "<U+000A>";  // as the library shows it
  const std::size_t newline = token.rfind(kNewline);
  if (newline != std::string_view::npos) token.remove_prefix(newline + kNewline.size());
  while (token.starts_with(' ')) token.remove_prefix(1);
  return token;
}

template <typename Json>
class Builder {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  // What the library calls; false stops the reading.
  bool null() { return add(Json(nullptr)); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(std::int64_t value) { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) { return add(Json(value)); }
  bool number_float(double value, const std::string&) { return add(Json(value)); }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(typename Json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool end_object() { return fill(open_.back()) && close(); }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  template <typename Exception>
  bool parse_error(std::size_t position, const std::string& token, const Exception&) {
    stopped_at_ = position;
    problem_ = fmt::format("not JSON near '{}'", last_words(token));
    return false;
  }

  Json root;
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // Of what the library found itself; 0 = not known.
  [[nodiscard]] std::size_t stopped_at() const { return stopped_at_; }

 private:
  struct Member {
    std::string key;
    Json value;
  };
  // An object or a list that is being read. Members wait until their object ends: it is then made
  // at its size, since growing would copy all that it holds.
  struct Open {
    Json value;
    std::string key;  // of its own, in the object around it
    std::size_t member_begin = 0;
  };

  bool add(Json value) {
    if (!count()) return false;
    place(std::move(value), std::move(key_));
    return true;
  }

  bool open(Json value) {
    if (open_.size() >= limits_.depth_max) {
      problem_ = fmt::format("it nests more than {} deep", limits_.depth_max);
      return false;
    }
    if (!count()) return false;
    open_.push_back({std::move(value), std::move(key_), members_.size()});
    return true;
  }

  bool close() {
    Open ended = std::move(open_.back());
    open_.pop_back();
    place(std::move(ended.value), std::move(ended.key));
    return true;
  }

  bool count() {
    if (++value_count_ <= limits_.value_count_max) return true;
    problem_ = fmt::format("it has more than {} values", limits_.value_count_max);
    return false;
  }

  void place(Json value, std::string key) {
    if (open_.empty()) {
      root = std::move(value);
    } else if (Json& parent = open_.back().value; parent.is_array()) {
      parent.emplace_back(std::move(value));
    } else {
      members_.push_back({std::move(key), std::move(value)});
    }
  }

  // Gives an object its members; false where two of them have one name.
  bool fill(Open& ended) {
    auto& object = *ended.value.template get_ptr<typename Json::object_t*>();
    const auto begin = members_.begin() + static_cast<std::ptrdiff_t>(ended.member_begin);
    const bool filled = fill_with(object, begin);
    members_.erase(begin, members_.end());
    return filled;
  }

  template <typename Members>
  bool fill_with(typename Json::object_t& object, Members begin) {
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      using Pairs = std::vector<typename Json::object_t::value_type>;
      auto& pairs = static_cast<Pairs&>(object);
      pairs.reserve(static_cast<std::size_t>(members_.end() - begin));
      for (auto member = begin; member != members_.end(); ++member) {
        pairs.emplace_back(std::move(member->key), std::move(member->value));
      }
      return keys_differ(pairs);
    } else {
      for (auto member = begin; member != members_.end(); ++member) {
        const auto [at, is_new] = object.emplace(std::move(member->key), std::move(member->value));
        if (!is_new) {
          problem_ = twice(at->first);
          return false;
        }
      }
      return true;
    }
  }

  template <typename Pairs>
  bool keys_differ(const Pairs& pairs) {
    std::vector<const std::string*> keys;
    keys.reserve(pairs.size());
    for (const auto& pair : pairs) keys.push_back(&pair.first);
    const auto less = [](const auto* a, const auto* b) { return *a < *b; };
    std::sort(keys.begin(), keys.end(), less);
    const auto same = std::adjacent_find(keys.begin(), keys.end(),
                                         [](const auto* a, const auto* b) { return *a == *b; });
    if (same == keys.end()) return true;
    problem_ = twice(**same);
    return false;
  }

  static std::string twice(const std::string& name) {
    return fmt::format("a key is there twice: '{}'", name.substr(0, kShownMax));
  }

  JsonLimits limits_;
  std::vector<Open> open_;
  std::vector<Member> members_;
  std::string key_;
  std::uint64_t value_count_ = 0;
  std::string problem_;
  std::size_t stopped_at_ = 0;
};

// "line 3, column 9: ".
std::string place_of(std::string_view text, std::size_t position) {
  if (position == 0) return "";
  const std::string_view before = text.substr(0, std::min(position, text.size()) - 1);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return fmt::format("line {}, column {}: ", line, column);
}

template <typename Json>
Json parse(std::string_view text, std::string* problem, const JsonLimits& limits) {
  Builder<Json> builder(limits);
  if (Json::sax_parse(text, &builder)) return std::move(builder.root);
  if (problem != nullptr) {
    const std::string place = text.empty() ? "" : place_of(text, builder.stopped_at());
    *problem = text.empty() ? "nothing" : place + builder.problem();
  }
  return Json(Json::value_t::discarded);
}

// The library escapes what lies below a blank. What a terminal obeys above it stands in texts
// alone, and is written as JSON's escapes too, so that the document means the same.
std::string without_controls(std::string text) {
  const bool is_plain =
      std::ranges::all_of(text, [](char byte) { return static_cast<unsigned char>(byte) < 0x7F; });
  return is_plain ? text : visible_text(text);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string* problem, const JsonLimits& limits) {
  return parse<nlohmann::json>(text, problem, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string* problem,
                                          const JsonLimits& limits) {
  return parse<nlohmann::ordered_json>(text, problem, limits);
}

std::string json_text(const nlohmann::json& json, int indent) {
  return without_controls(json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return without_controls(
      json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::json parse_json(std::string_view text, const JsonSource& source) {
  std::string problem;
  nlohmann::json json = parse_json(text, &problem);
  if (json.is_discarded()) refuse_json(source, std::move(problem));
  return json;
}

void refuse_json(const JsonSource& source, std::string got) {
  throw UsageError({.what = source.what,
                    .where = source.where,
                    .wanted = source.wanted,
                    .got = std::move(got),
                    .next = source.next});
}

std::string json_excerpt(const nlohmann::ordered_json& json) {
  constexpr std::size_t kShownBytes = 60;
  std::string text = json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes - 3) + "...";
  return text;
}

std::string json_reason(const std::exception& error) {
  const std::string_view text = error.what();
  const std::size_t mark = text.find("] ");
  return std::string(text.starts_with('[') && mark != std::string_view::npos ? text.substr(mark + 2)
                                                                             : text);
}

}  // namespace allocmark
