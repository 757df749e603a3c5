// Reads single values of config strings; see conf_value.h.
#include "allocators/conf/conf_value.h"

#include <fmt/format.h>

#include <bit>
#include <string>

#include "base/bytes.h"
#include "base/number_text.h"

namespace allocmark {
namespace {

std::string range_text(std::string_view kind, ConfRange range) {
  if (range.highest == UINT64_MAX) {
    return fmt::format("{} of at least {}", kind, range.lowest);
  }
  return fmt::format("{} from {} to {}", kind, range.lowest, range.highest);
}

}  // namespace

void ConfReader::fail(const ConfPair& pair, std::string_view wanted) {
  if (error_) {
    return;
  }
  error_ = ErrorText{.what = fmt::format("the value of config key '{}' is not allowed", pair.key),
                     .where = conf_place(pair.key, pair.value_column),
                     .wanted = std::string(wanted),
                     .got = fmt::format("'{}'", pair.value)};
}

bool ConfReader::boolean(const ConfPair& pair) { return word(pair, {"False", "True"}) == 1; }

std::uint64_t ConfReader::number(const ConfPair& pair, ConfRange range) {
  const std::optional<std::uint64_t> value = number_in_text<std::uint64_t>(pair.value);
  if (value && *value >= range.lowest && *value <= range.highest) return *value;
  fail(pair, range_text("a whole number", range));
  return range.lowest;
}

double ConfReader::fraction(const ConfPair& pair, bool may_be_zero) {
  const std::optional<double> value = number_in_text<double>(pair.value);
  if (value && (may_be_zero ? *value >= 0 : *value > 0) && *value <= 1) return *value;
  fail(pair, may_be_zero ? "a number from 0 to 1" : "a number above 0, at most 1");
  return 1;
}

std::uint64_t ConfReader::bytes(const ConfPair& pair, const BytesRule& rule) {
  const std::optional<std::uint64_t> value = parse_bytes_or_count(pair.value);
  const bool in_range = value && *value >= rule.range.lowest && *value <= rule.range.highest;
  if (!in_range || (rule.power_of_two && !std::has_single_bit(*value))) {
    fail(pair, range_text(rule.power_of_two ? "a power of two, in bytes," : "a size in bytes",
                          rule.range));
    return rule.range.lowest;
  }
  return *value;
}

std::size_t ConfReader::word(const ConfPair& pair, const std::vector<std::string_view>& words) {
  for (std::size_t index = 0; index < words.size(); ++index) {
    if (pair.value == words[index]) {
      return index;
    }
  }
  fail(pair, fmt::format("{}", fmt::join(words, " or ")));
  return 0;
}

void require_good_conf(const std::optional<ErrorText>& error) {
  if (error) {
    throw UsageError(*error);
  }
}

}  // namespace allocmark
