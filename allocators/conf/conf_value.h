// Values in the config strings of the backends that have keys of their own: booleans, numbers, byte
// sizes, words. A wrong value gives the error with key, column and what is allowed. No device is
// touched.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
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

}  // namespace allocmark
