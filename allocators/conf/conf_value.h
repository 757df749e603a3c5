// Values in the config strings of the backends that have keys of their own: booleans, numbers, byte
// sizes, words. A wrong value gives the error with key, column and what is allowed. No device is
// touched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocators/conf/conf.h"
#include "base/error.h"

namespace allocmark {

// Both ends included.
struct ConfRange {
  std::uint64_t lowest = 0;
  std::uint64_t highest = UINT64_MAX;
};

// One pair of the string being read. The first error stays, later ones are dropped: it is the one
// to correct first.
class ConfReader {
 public:
  explicit ConfReader(std::optional<ErrorText>& error) : error_(error) {}

  // "True" or "False", as PyTorch writes them.
  [[nodiscard]] bool boolean(const ConfPair& pair);
  // A whole number in decimal digits.
  [[nodiscard]] std::uint64_t number(const ConfPair& pair, ConfRange range);
  // A part of something: a number above 0, or from 0 on, up to 1.
  [[nodiscard]] double fraction(const ConfPair& pair, bool may_be_zero);
  // A byte size ("4096", "2MiB"); where `power_of_two`, nothing else.
  struct BytesRule {
    ConfRange range;
    bool power_of_two = false;
  };
  [[nodiscard]] std::uint64_t bytes(const ConfPair& pair, const BytesRule& rule);
  // One of `words`; gives its index.
  [[nodiscard]] std::size_t word(const ConfPair& pair, const std::vector<std::string_view>& words);

  void fail(const ConfPair& pair, std::string_view wanted);

 private:
  std::optional<ErrorText>& error_;
};

// Throws UsageError where there is an error.
void require_good_conf(const std::optional<ErrorText>& error);

// What a config string says. Where there is an error, what the pairs before it say.
template <class Conf>
struct ConfResult {
  Conf conf = {};
  std::optional<ErrorText> error = std::nullopt;
};

// One key of a backend's config string, and what its value sets.
template <class Conf>
struct ConfKey {
  std::string name;
  std::function<void(ConfReader& reader, const ConfPair& pair, Conf& conf)> read;
};

// "True" or "False" into a field.
template <class Conf, class Field>
[[nodiscard]] ConfKey<Conf> boolean_key(std::string name, Field Conf::*field) {
  return {std::move(name), [field](ConfReader& reader, const ConfPair& pair, Conf& conf) {
            conf.*field = reader.boolean(pair);
          }};
}

// A whole number of `unit`s into a field.
template <class Conf, class Field>
[[nodiscard]] ConfKey<Conf> number_key(std::string name, Field Conf::*field, ConfRange range,
                                       std::uint64_t unit = 1) {
  return {std::move(name), [=](ConfReader& reader, const ConfPair& pair, Conf& conf) {
            conf.*field = static_cast<Field>(reader.number(pair, range) * unit);
          }};
}

// A byte size into a field.
template <class Conf>
[[nodiscard]] ConfKey<Conf> bytes_key(std::string name, std::uint64_t Conf::*field,
                                      const ConfReader::BytesRule& rule) {
  return {std::move(name), [=](ConfReader& reader, const ConfPair& pair, Conf& conf) {
            conf.*field = reader.bytes(pair, rule);
          }};
}

// A part of something into a field.
template <class Conf>
[[nodiscard]] ConfKey<Conf> fraction_key(std::string name, double Conf::*field, bool may_be_zero) {
  return {std::move(name), [=](ConfReader& reader, const ConfPair& pair, Conf& conf) {
            conf.*field = reader.fraction(pair, may_be_zero);
          }};
}

// One of `words`, whose index is the value of a field: a flag or an enumeration.
template <class Conf, class Field>
[[nodiscard]] ConfKey<Conf> word_key(std::string name, Field Conf::*field,
                                     std::vector<std::string_view> words) {
  return {std::move(name),
          [field, words = std::move(words)](ConfReader& reader, const ConfPair& pair, Conf& conf) {
            conf.*field = static_cast<Field>(reader.word(pair, words));
          }};
}

// What the config strings of a backend look like: keys, what holds without them, and a look at all
// pairs when they are read. Called with a string it says what that means.
template <class Conf>
struct ConfFormat {
  std::vector<ConfKey<Conf>> keys = {};
  Conf defaults = {};
  // Null where each value is good by itself. `pairs` may be empty.
  void (*check)(ConfReader& reader, const std::vector<ConfPair>& pairs, Conf& conf) = nullptr;

  [[nodiscard]] std::vector<std::string> key_names() const {
    std::vector<std::string> names;
    for (const ConfKey<Conf>& key : keys) names.push_back(key.name);
    return names;
  }

  [[nodiscard]] ConfResult<Conf> operator()(std::string_view text) const {
    ConfSplit split = split_conf(text, key_names());
    ConfResult<Conf> result{.conf = defaults, .error = std::move(split.error)};
    ConfReader reader(result.error);
    for (const ConfPair& pair : split.pairs) {
      std::ranges::find(keys, pair.key, &ConfKey<Conf>::name)->read(reader, pair, result.conf);
    }
    if (check != nullptr) check(reader, split.pairs, result.conf);
    return result;
  }
};

// For a backend without config keys.
struct NoConf {};
[[nodiscard]] inline ConfResult<NoConf> read_no_conf(std::string_view text) {
  return {.error = split_conf(text, {}).error};
}

// What BackendEntry::check_conf and BackendEntry::make are, where `read` gives the ConfResult of a
// config string and `make(conf, options)` an instance.
template <class Read>
[[nodiscard]] auto conf_checker(Read read) {
  return [read](std::string_view text) { return read(text).error; };
}
template <class Read, class Make>
[[nodiscard]] auto conf_maker(Read read, Make make) {
  return [read, make](const auto& options) {
    auto result = read(options.conf);
    require_good_conf(result.error);
    return make(result.conf, options);
  };
}

}  // namespace allocmark
