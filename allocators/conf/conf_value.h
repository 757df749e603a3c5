// Values in the config strings of the backends that have keys of their own: booleans, numbers, byte
// sizes, words. A wrong value gives the error with key, column and what is allowed. No device is
// touched.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

// Reads a config string of these keys into `conf`, which has the defaults: `read(reader, pairs,
// conf)` is given all pairs.
template <class Conf, class Read>
[[nodiscard]] ConfResult<Conf> read_pairs(std::string_view text, std::span<const std::string> keys,
                                          Conf conf, Read read) {
  ConfSplit split = split_conf(text, keys);
  ConfResult<Conf> result{.conf = std::move(conf), .error = std::move(split.error)};
  ConfReader reader(result.error);
  read(reader, split.pairs, result.conf);
  return result;
}
// The same as a function of the text, for those that nobody else calls.
template <class Conf>
[[nodiscard]] auto conf_reader(std::vector<std::string> keys, Conf conf,
                               void (*read)(ConfReader&, const std::vector<ConfPair>&, Conf&)) {
  return [keys = std::move(keys), conf = std::move(conf), read](std::string_view text) {
    return read_pairs(text, keys, conf, read);
  };
}
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
