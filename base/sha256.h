// SHA-256 (FIPS 180-4), so that a published file can be told from a changed one, also by the
// sha256sum of any system. Bytes in, 64 hexadecimal digits out.
#pragma once

#include <string>
#include <string_view>

#include "base/input_file.h"
#include "base/stored_text.h"

namespace allocmark {

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

// The same of what is read on to its end.
[[nodiscard]] std::string sha256_of(const ByteSource& next);

// The same of a file, a piece at a time. Throws FileError where it cannot be read.
[[nodiscard]] std::string sha256_of_file(const std::string& path, const InputKind& kind);

}  // namespace allocmark
