// All bytes of a buffer to an open file. Flows in: bytes and a descriptor. Flows out: an error
// number, so that each caller says what it was writing.
#pragma once

#include <cstddef>
#include <span>

namespace allocmark {

// Goes on after signals and short writes. Returns 0, or the errno of the write that failed; ENOSPC
// where the file took nothing.
[[nodiscard]] int write_fully(int fd, std::span<const std::byte> bytes);
[[nodiscard]] inline int write_fully(int fd, std::span<const char> text) {
  return write_fully(fd, std::as_bytes(text));
}

}  // namespace allocmark
