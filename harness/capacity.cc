// Capacity texts.
#include "harness/capacity.h"

#include <charconv>
#include <cmath>
#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace allocmark {

namespace {

constexpr std::string_view kLimitSuffix = "@limit";
constexpr std::uint64_t kSizeBytesMax = std::uint64_t{1} << 56;

[[noreturn]] void refuse(std::string_view text) {
  throw UsageError(ErrorText{.what = "the capacity is not understood",
                             .where = "--capacity",
                             .wanted = "unlimited, a size (8GiB) or a multiple of the trace's peak "
                                       "(1.05x), each with @limit behind it if wanted",
                             .got = "\"" + std::string(text) + "\"",
                             .next = "for example --capacity 1.05x"});
}

std::optional<double> parse_multiple(std::string_view text) {
  if (text.empty() || (text.back() != 'x' && text.back() != 'X')) return std::nullopt;
  text.remove_suffix(1);
  double multiple = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), multiple);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
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
    if (amount.empty() || amount == "unlimited") refuse(text);
  }
  if (amount.empty() || amount == "unlimited") return capacity;
  capacity.peak_multiple = parse_multiple(amount);
  if (capacity.peak_multiple) return capacity;
  // "1.05" is a multiple without its x, and surely not one byte and a bit.
  const bool has_fraction = amount.find('.') != std::string_view::npos;
  if (has_fraction && amount.back() >= '0' && amount.back() <= '9') refuse(text);
  capacity.size_bytes = parse_bytes(amount);
  if (!capacity.size_bytes || *capacity.size_bytes == 0 || *capacity.size_bytes > kSizeBytesMax) {
    refuse(text);
  }
  return capacity;
}

}  // namespace allocmark
