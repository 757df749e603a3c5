// Texts of any size in little memory: what is long lies in a file, a name's own or one without a
// name, and is read a piece at a time. Bytes flow in, in order; pieces of them flow out, from
// anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/input_file.h"

namespace allocmark {

// Reads on: bytes put into `into`, fewer than asked for only at the end.
using ByteSource = std::function<std::size_t(std::span<char> into)>;

// The descriptor of a file in TMPDIR or /tmp that has no name and is gone with it. Throws
// WriteError.
[[nodiscard]] int open_unnamed_file();

// Bytes that are added at the end. Up to kSpoolMemoryBytes they are in memory; with more all are in
// a file without a name, in TMPDIR or /tmp. Throws WriteError where that has no room.
inline constexpr std::size_t kSpoolMemoryBytes = std::size_t{8} << 20;
class Spool {
 public:
  Spool() = default;
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  void append(std::string_view bytes);
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  // Bytes put into `into` from `at_bytes` on; fewer than asked for only at the end.
  [[nodiscard]] std::size_t read(std::uint64_t at_bytes, std::span<char> into) const;

 private:
  std::string memory_;
  int fd_ = -1;  // where there is one, it has everything
  std::uint64_t size_bytes_ = 0;
};

// Part of a spool, or a file as long as it was when it was named here. Copies share their bytes.
class StoredText {
 public:
  StoredText() = default;
  StoredText(std::string_view text);
  StoredText(const std::string& text) : StoredText(std::string_view(text)) {}
  StoredText(const char* text) : StoredText(std::string_view(text)) {}
  // What the spool has so far.
  explicit StoredText(std::shared_ptr<const Spool> spool)
      : spool_(std::move(spool)), size_bytes_(spool_->size_bytes()) {}
  StoredText(std::shared_ptr<const Spool> spool, std::uint64_t begin_bytes,
             std::uint64_t size_bytes)
      : spool_(std::move(spool)), begin_bytes_(begin_bytes), size_bytes_(size_bytes) {}
  // Throws FileError as InputFile does, here and when it is read.
  [[nodiscard]] static StoredText of_file(const std::string& path, const InputKind& kind);

  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  // Throws FileError where a file has become shorter.
  [[nodiscard]] std::size_t read(std::uint64_t at_bytes, std::span<char> into) const;
  // Reads from the first byte on; the text may go, its bytes stay.
  [[nodiscard]] ByteSource bytes() const;
  // All of it, for texts that are known to be short.
  [[nodiscard]] std::string whole() const;
  // In order, none empty and none above 1 MiB.
  void each_piece(const std::function<void(std::string_view piece)>& take) const;
  // Line by line with its newline; of a line above `size_bytes_max` the parts.
  void each_line(std::size_t size_bytes_max,
                 const std::function<void(std::string_view line)>& take) const;
  [[nodiscard]] bool equals(std::string_view text) const;

 private:
  std::shared_ptr<const Spool> spool_ = {};
  std::string path_ = {};  // of a file
  InputKind kind_ = kOtherInput;
  std::uint64_t begin_bytes_ = 0, size_bytes_ = 0;
};

}  // namespace allocmark
