// The bytes of a tensor that TensorFlow names: "OOM when allocating tensor with shape[256,128] and
// type float".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace allocmark::message {

// Of plain text; none where there is no shape, its type is not known, or it is no size.
[[nodiscard]] std::optional<std::int64_t> tensor_bytes(std::string_view text);

}  // namespace allocmark::message
