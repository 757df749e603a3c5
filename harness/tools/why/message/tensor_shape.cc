#include "harness/tools/why/message/tensor_shape.h"

#include <array>
#include <charconv>
#include <utility>

#include "harness/tools/why/message/figure.h"

namespace allocmark::message {
namespace {

// Longer names first.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 16> kTypes = {{{"complex128", 16},
                                                                               {"complex64", 8},
                                                                               {"bfloat16", 2},
                                                                               {"float64", 8},
                                                                               {"float32", 4},
                                                                               {"float16", 2},
                                                                               {"double", 8},
                                                                               {"float", 4},
                                                                               {"half", 2},
                                                                               {"uint8", 1},
                                                                               {"int64", 8},
                                                                               {"int32", 4},
                                                                               {"int16", 2},
                                                                               {"int8", 1},
                                                                               {"bool", 1},
                                                                               {"int", 4}}};

}  // namespace

std::optional<std::int64_t> tensor_bytes(std::string_view text) {
  const std::size_t shape = text.find("shape[");
  const std::size_t end = text.find("]andtype", shape == std::string_view::npos ? 0 : shape);
  if (shape == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  const std::string_view type = text.substr(end + 8, 16);
  std::int64_t size_bytes = 0;
  for (const auto& [name, type_bytes] : kTypes) {
    if (size_bytes == 0 && type.starts_with(name)) size_bytes = type_bytes;
  }
  if (size_bytes == 0) return std::nullopt;
  std::string_view dimensions = text.substr(shape + 6, end - shape - 6);
  while (!dimensions.empty()) {
    std::int64_t count = 0;
    const char* const last = dimensions.data() + dimensions.size();
    const auto [stop, error] = std::from_chars(dimensions.data(), last, count);
    if (error != std::errc{} || count < 0) return std::nullopt;
    if (count > 0 && size_bytes > kNoSizeBytes / count) return std::nullopt;
    size_bytes *= count;
    dimensions.remove_prefix(static_cast<std::size_t>(stop - dimensions.data()));
    if (!dimensions.empty() && dimensions.front() != ',') return std::nullopt;
    if (!dimensions.empty()) dimensions.remove_prefix(1);
  }
  return size_bytes;
}

}  // namespace allocmark::message
