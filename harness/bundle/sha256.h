// SHA-256 (FIPS 180-4), so that a published file can be told from a changed one, also by the
// sha256sum of any system. Bytes in, 64 hexadecimal digits out.
#pragma once

#include <string>
#include <string_view>

namespace allocmark {

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace allocmark
