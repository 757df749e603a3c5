#include "workloads/trace/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/number_text.h"
#include "workloads/trace/model_keys.h"
#include "workloads/trace/other_words.h"

namespace allocmark {
namespace {

// "here that is 'batch'", or "did you mean 'seq'?"; empty where nothing is near: the message has
// named them all already.
std::string meant(std::string_view word, const std::vector<std::string>& known) {
  const std::string ours = other_word(word, known);
  if (!ours.empty()) return fmt::format("here that is '{}'", ours);
  return nearest_names(word, known).empty() ? std::string() : suggest(word, known);
}

// A model's name on Hugging Face has more words than ours.
std::string meant_model(std::string_view word, const std::vector<std::string>& known) {
  const std::string ours = model_word(word, known);
  return ours.empty() ? meant(word, known) : fmt::format("here that is '{}'", ours);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Parameters::Parameters(std::string_view text) : text_(text) {
  const std::size_t colon = text.find(':');
  name_ = text.substr(0, colon);
  if (colon == std::string_view::npos) return;
  std::string_view rest = text.substr(colon + 1);
  for (bool first = true; !rest.empty() || first; first = false) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = item.find('=');
    if (first && equals == std::string_view::npos) {
      variant_ = item;
      continue;
    }
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
      throw UsageError({.what = "not a parameter",
                        .where = fmt::format("workload '{}'", text_),
                        .wanted = "key=value after the comma",
                        .got = fmt::format("'{}'", item),
                        .next = "The grammar is name:variant,key=value,key=value"});
    }
    const std::string key(item.substr(0, equals));
    for (const auto& [other, value] : values_) {
      if (other == key) refuse(key, "one value", "two");
    }
    values_.emplace_back(key, item.substr(equals + 1));
  }
}

void Parameters::refuse(std::string_view key, std::string wanted, std::string_view got) const {
  throw UsageError({.what = fmt::format("bad value of key '{}'", key),
                    .where = fmt::format("workload '{}'", text_),
                    .wanted = std::move(wanted),
                    .got = std::string(got)});
}

const std::string* Parameters::given(std::string_view key) const {
  for (const auto& [known, value] : values_) {
    if (known == key) return &value;
  }
  return nullptr;
}

const std::string* Parameters::find(std::string_view key) {
  asked_.emplace_back(key);
  return given(key);
}

std::uint64_t Parameters::number(std::string_view key, std::uint64_t preset,
                                 const NumberRange& range) {
  const std::string* value = find(key);
  if (value == nullptr) {
    presets_.emplace_back(key, std::to_string(preset));
    return preset;
  }
  const std::optional<std::uint64_t> parsed = number_in_text<std::uint64_t>(*value);
  if (!parsed || *parsed < range.lowest || *parsed > range.highest) {
    refuse(key, fmt::format("a whole number from {} to {}", range.lowest, range.highest), *value);
  }
  return *parsed;
}

std::vector<std::uint64_t> Parameters::numbers(std::string_view key, std::uint64_t preset,
                                               const NumberRange& range) {
  const std::string* value = find(key);
  if (value == nullptr) {
    presets_.emplace_back(key, std::to_string(preset));
    return {preset};
  }
  std::vector<std::uint64_t> parsed;
  for (std::size_t begin = 0; begin <= value->size();) {
    const std::size_t end = std::min(value->find('/', begin), value->size());
    const auto one = number_in_text<std::uint64_t>(value->substr(begin, end - begin));
    if (!one || *one < range.lowest || *one > range.highest || parsed.size() == 1024) {
      refuse(key,
             fmt::format("up to 1024 whole numbers from {} to {}, joined by '/'", range.lowest,
                         range.highest),
             *value);
    }
    parsed.push_back(*one);
    begin = end + 1;
  }
  return parsed;
}

// Names both meanings of a unit that has two.
static std::string size_hint(const std::string& text) {
  const std::string hint = explain_bytes(text);
  return hint.empty() ? "" : " (" + hint + ")";
}

std::uint64_t Parameters::size_bytes(std::string_view key, std::uint64_t preset,
                                     const NumberRange& range) {
  const std::string* value = find(key);
  if (value == nullptr) {
    presets_.emplace_back(key, format_bytes(preset));
    return preset;
  }
  const std::optional<std::uint64_t> parsed = parse_bytes_or_count(*value);
  if (!parsed || *parsed < range.lowest || *parsed > range.highest) {
    refuse(key,
           fmt::format("a size from {} to {}, for example 512MiB{}", format_bytes(range.lowest),
                       format_bytes(range.highest), parsed ? "" : size_hint(*value)),
           *value);
  }
  return *parsed;
}

std::size_t Parameters::choice(std::string_view key, const std::vector<std::string>& choices,
                               std::size_t preset) {
  const std::string* value = find(key);
  if (value == nullptr) {
    presets_.emplace_back(key, choices[preset]);
    return preset;
  }
  const auto found = std::ranges::find(choices, *value);
  if (found == choices.end()) {
    const std::string hint = meant(*value, choices);
    refuse(key, "one of " + joined(choices),
           fmt::format("'{}'", *value) + (hint.empty() ? hint : " (" + hint + ")"));
  }
  return static_cast<std::size_t>(found - choices.begin());
}

std::size_t Parameters::variant_index(std::string_view what, const std::vector<std::string>& known,
                                      bool required) {
  if (variant_.empty() && !required) return 0;
  const auto found = std::ranges::find(known, variant_);
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  throw UsageError(
      {.what = variant_.empty() ? fmt::format("no {} given", what)
                                : fmt::format("unknown {} '{}'", what, variant_),
       .where = fmt::format("workload '{}'", text_),
       .wanted = fmt::format("{}:{}", name_, known.front()) + " or another of: " + joined(known),
       .next = variant_.empty() ? "" : meant_model(variant_, known)});
}

void Parameters::refuse_variant() const {
  if (variant_.empty()) return;
  throw UsageError({.what = fmt::format("{} has no variants", name_),
                    .where = fmt::format("workload '{}'", text_),
                    .wanted = fmt::format("{0}:key=value,key=value or {0}:", name_),
                    .got = fmt::format("'{}'", variant_)});
}

void Parameters::refuse_for_model(const std::string& key, const ModelKey& row) const {
  ErrorText text{.what = fmt::format("unknown key '{}', which ", key),
                 .where = fmt::format("workload '{}'", text_)};
  if (!is_for_model(row, model_kind_)) {
    text.what += "is not for this model";
    text.wanted = "a model of one of these kinds: " + models_of(row);
    text.got = fmt::format("'{}', of kind {}", variant_, model_kind_);
    text.next = "leave the key out, or choose such a model";
    throw UsageError(std::move(text));
  }
  if (row.wants.empty()) return;
  text.what += fmt::format("needs {}", row.wants);
  text.next =
      fmt::format("give both, as in {}:{},lora=16,{}={}", name_, variant_, key, *given(key));
  throw UsageError(std::move(text));
}

void Parameters::finish() const {
  for (const auto& [key, value] : values_) {
    if (std::ranges::find(asked_, key) != asked_.end()) continue;
    if (const ModelKey* row = find_model_key(name_, key)) refuse_for_model(key, *row);
    const std::string hint = meant(key, asked_);
    throw UsageError({.what = fmt::format("unknown key '{}'", key),
                      .where = fmt::format("workload '{}'", text_),
                      .wanted = "a key of " + name_ + (hint.empty() ? ": " + joined(asked_) : ""),
                      .next = hint});
  }
}

}  // namespace allocmark
