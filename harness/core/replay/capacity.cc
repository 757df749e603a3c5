// Capacity texts.
#include "harness/core/replay/capacity.h"

#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/number_text.h"

namespace allocmark {

namespace {

constexpr std::string_view kLimitSuffix = "@limit";
constexpr std::uint64_t kSizeBytesMax = std::uint64_t{1} << 56;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

// A number alone may be a size without its unit or a multiple without its x; percent are a
// multiple.
std::string next_step(std::string_view amount) {
  std::string hint = explain_bytes(amount);
  if (is_number(amount)) {
    // No card has so many GiB, and tools that count memory in MiB leave the unit out.
    const bool large = amount.substr(0, amount.find('.')).size() > 3;
    return fmt::format("did you mean {0}{1}, {0}B or {0}x?", amount, large ? "MiB" : "GiB");
  }
  if (const std::size_t comma = amount.find(','); comma != std::string_view::npos) {
    return fmt::format("several stand apart: --capacity {} {}", amount.substr(0, comma),
                       amount.substr(comma + 1));
  }
  if (!hint.empty()) return hint;
  if (amount.ends_with('%')) {
    const std::string_view number = amount.substr(0, amount.size() - 1);
    double percent = 0;
    const char* const end = number.data() + number.size();
    if (std::from_chars(number.data(), end, percent).ptr == end && percent > 0) {
      return fmt::format("did you mean {:g}x, a multiple of the trace's peak?", percent / 100);
    }
  }
  return "for example --capacity 1.05x";
}

[[noreturn]] void refuse_capacity(std::string_view text, std::string_view amount) {
  throw UsageError(ErrorText{.what = "the capacity is not understood",
                             .where = "--capacity",
                             .wanted =
                                 "unlimited, a size (24GiB) or a multiple of the trace's peak "
                                 "(1.05x), each with @limit behind it if wanted",
                             .got = "\"" + std::string(text) + "\"",
                             .next = next_step(amount)});
}

std::optional<double> parse_multiple(std::string_view text) {
  if (text.empty() || (text.back() != 'x' && text.back() != 'X')) return std::nullopt;
  text.remove_suffix(1);
  const std::optional<double> multiple = number_in_text<double>(text);
  // Written so that a NaN is refused too.
  if (!(multiple > 0 && multiple <= 1e6)) return std::nullopt;
  return multiple;
}

std::uint64_t round_up_to_page(std::uint64_t size_bytes) {
  return (size_bytes + kDevicePageBytes - 1) / kDevicePageBytes * kDevicePageBytes;
}

}  // namespace

std::uint64_t Capacity::resolve_bytes(std::uint64_t requested_bytes_peak) const {
  if (size_bytes) return round_up_to_page(*size_bytes);
  const double bytes =
      std::ceil(static_cast<double>(requested_bytes_peak) * peak_multiple.value_or(1));
  if (bytes >= static_cast<double>(kSizeBytesMax)) return kSizeBytesMax;
  return round_up_to_page(static_cast<std::uint64_t>(bytes));
}

Capacity parse_capacity(std::string_view text) {
  Capacity capacity;
  std::string_view amount = text;
  if (amount.ends_with(kLimitSuffix)) {
    amount.remove_suffix(kLimitSuffix.size());
    capacity.enforcement = CapacityEnforcement::AllocatorLimit;
    if (amount.empty() || amount == "unlimited") refuse_capacity(text, amount);
  }
  if (amount.empty() || amount == "unlimited") return capacity;
  capacity.peak_multiple = parse_multiple(amount);
  if (capacity.peak_multiple) return capacity;
  capacity.size_bytes = parse_bytes(amount);
  if (!capacity.size_bytes || *capacity.size_bytes == 0 || *capacity.size_bytes > kSizeBytesMax) {
    refuse_capacity(text, amount);
  }
  return capacity;
}

}  // namespace allocmark
