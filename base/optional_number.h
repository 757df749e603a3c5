// A number that may be absent, in the memory of a double: where many thousands of them are held at
// once, half of what std::optional<double> takes. Not a number is absent.
#pragma once

#include <cmath>
#include <limits>
#include <optional>

namespace allocmark {

class OptionalNumber {
 public:
  constexpr OptionalNumber() = default;
  constexpr OptionalNumber(std::nullopt_t) {}
  constexpr OptionalNumber(double value) : value_(value) {}
  constexpr OptionalNumber(const std::optional<double>& value) : value_(value.value_or(kAbsent)) {}

  [[nodiscard]] bool has_value() const { return !std::isnan(value_); }
  explicit operator bool() const { return has_value(); }
  // Not a number where it is absent.
  double operator*() const { return value_; }
  [[nodiscard]] double value_or(double other) const { return has_value() ? value_ : other; }
  operator std::optional<double>() const {
    return has_value() ? std::optional(value_) : std::nullopt;
  }
  friend bool operator==(const OptionalNumber& a, const OptionalNumber& b) {
    return a.has_value() ? a.value_ == b.value_ : !b.has_value();
  }

 private:
  static constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  double value_ = kAbsent;
};

}  // namespace allocmark
