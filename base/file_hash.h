// A 64-bit hash of a file's bytes, so that a changed file is told from the one before. A piece of
// the file flows in at a time; 16 hexadecimal digits flow out. It is fast, since traces and
// programs are large, and protects against no one: sha256.h does.
#pragma once

#include <string>

#include "base/input_file.h"

namespace allocmark {

// Empty of a file without bytes. Throws FileError where it cannot be read.
[[nodiscard]] std::string hash_of_file(const std::string& path, const InputKind& kind);

}  // namespace allocmark
