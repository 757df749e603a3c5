// Bytes of a file in order, packed or unpacked by the file's suffix (.gz: gzip, .zst: zstd, else
// plain), in constant memory both ways.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace allocmark {

// Reads. Throws FileError where the file cannot be opened or read.
class ByteReader {
 public:
  explicit ByteReader(const std::string& path);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  // Bytes put into `into`; fewer than asked for at the end, 0 after it or where the packed data are
  // damaged.
  [[nodiscard]] std::size_t read(std::span<char> into);
  // Why the data ended before their end, empty where they did not: "the gzip data end in
  // mid-stream".
  [[nodiscard]] const std::string& damage() const;
  // Starts again from the first byte.
  void rewind();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes to PATH.part and gives it its name in finish(), so that nobody ever reads half a file.
// Without finish() the part file is removed. Throws FileError where the disk refuses.
class ByteWriter {
 public:
  explicit ByteWriter(const std::string& path);
  ~ByteWriter();
  ByteWriter(const ByteWriter&) = delete;
  ByteWriter& operator=(const ByteWriter&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace allocmark
