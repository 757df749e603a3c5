// Bytes of a file in order, in constant memory both ways. Its first bytes say how a file is packed;
// what is written is packed by the file's suffix (.gz: gzip, .zst: zstd, else plain).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/input_file.h"

namespace allocmark {

// Reads. Throws FileError where the file cannot be opened or read, UsageError where another program
// packed it.
class ByteReader {
 public:
  explicit ByteReader(const std::string& path, const InputKind& kind = kTraceInput);
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
  // Bytes taken from the file itself so far, packed or not.
  [[nodiscard]] std::uint64_t packed_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Writes as OutputFile does: without finish() a regular file is not touched. Throws FileError where
// the disk refuses.
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

// How much an archive or a packed file may unpack to: a small file must not fill the memory.
struct UnpackLimits {
  std::uint64_t size_bytes_max = kGiB;
  // Beyond the first kUnpackFreeBytes no more than so many bytes for each packed one.
  std::uint64_t ratio_max = 200;
};
inline constexpr std::uint64_t kUnpackFreeBytes = 32 * kMiB;

// "it unpacks to more than 1.00 GiB"; empty where `unpacked_bytes` keeps to the limits.
[[nodiscard]] std::string beyond_limits(const ByteReader& reader, std::uint64_t unpacked_bytes,
                                        const UnpackLimits& limits);

// The whole file, unpacked. Throws UsageError where it is damaged or beyond the limits; `what` says
// so: "the golden is damaged".
[[nodiscard]] std::string read_unpacked(const std::string& path, const InputKind& kind,
                                        const std::string& what, const UnpackLimits& limits = {});

}  // namespace allocmark
