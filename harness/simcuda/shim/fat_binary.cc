#include "harness/simcuda/shim/fat_binary.h"

#include <dlfcn.h>
#include <zstd.h>

#include <cstdint>
#include <vector>

#include "harness/simcuda/shim/system_library.h"

namespace simcuda {
namespace {

struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t size_bytes;
};
struct FatEntry {
  std::uint16_t kind;  // 1: PTX, 2: a binary
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t size_bytes;
  std::uint32_t packed_bytes;
  std::uint32_t not_used[5];
  std::uint64_t flags;
  std::uint64_t zero;
  std::uint64_t unpacked_bytes;  // where it is packed
};
constexpr std::uint64_t kPackedByLz4 = 0x2000;
constexpr std::uint64_t kPackedByZstd = 0x8000;
constexpr std::uint64_t kUnpackedBytesMax = std::uint64_t{1} << 30;

// An LZ4 block as text with a zero behind; empty where it is none of that size.
std::vector<unsigned char> unpack_lz4(const unsigned char* from, std::size_t packed_bytes,
                                      std::size_t unpacked_bytes) {
  const unsigned char* const end = from + packed_bytes;
  std::vector<unsigned char> text;
  text.reserve(unpacked_bytes + 1);
  // A length of 15 goes on in further bytes, up to one that is not 255.
  const auto length_of = [&](std::size_t length) {
    for (unsigned char more = 255; length >= 15 && more == 255 && from < end; length += more)
      more = *from++;
    return length;
  };
  while (from < end) {
    const unsigned token = *from++;
    const std::size_t literal_bytes = length_of(token >> 4);
    if (literal_bytes > static_cast<std::size_t>(end - from)) return {};
    text.insert(text.end(), from, from + literal_bytes);
    from += literal_bytes;
    if (end - from < 2) break;  // the last piece has no match
    const std::size_t distance = from[0] | from[1] << 8;
    from += 2;
    const std::size_t match_bytes = length_of(token & 15) + 4;
    if (distance == 0 || distance > text.size() || text.size() + match_bytes > unpacked_bytes)
      return {};
    for (std::size_t i = 0; i < match_bytes; ++i) text.push_back(text[text.size() - distance]);
  }
  if (text.size() != unpacked_bytes) return {};
  text.push_back(0);
  return text;
}

// libzstd, which is opened where an image needs it: a program may have another one of its own,
// which this library's needs must not decide.
struct Zstd {
  decltype(&ZSTD_decompress) decompress = nullptr;
  decltype(&ZSTD_isError) is_error = nullptr;
};
const Zstd& zstd() {
  static const Zstd found = [] {
    void* const library = open_library("libzstd.so.1");
    if (library == nullptr) return Zstd{};
    return Zstd{
        .decompress =
            reinterpret_cast<decltype(&ZSTD_decompress)>(dlsym(library, "ZSTD_decompress")),
        .is_error = reinterpret_cast<decltype(&ZSTD_isError)>(dlsym(library, "ZSTD_isError"))};
  }();
  return found;
}

// The same of a Zstandard frame.
std::vector<unsigned char> unpack_zstd(const unsigned char* from, std::size_t packed_bytes,
                                       std::size_t unpacked_bytes) {
  if (zstd().decompress == nullptr || zstd().is_error == nullptr) return {};
  std::vector<unsigned char> text(unpacked_bytes + 1);
  const std::size_t got = zstd().decompress(text.data(), unpacked_bytes, from, packed_bytes);
  if (zstd().is_error(got) != 0 || got != unpacked_bytes) return {};
  return text;
}

CodeFacts read_entry(const FatEntry& entry, const unsigned char* payload) {
  if ((entry.flags & (kPackedByLz4 | kPackedByZstd)) == 0) return read_code(payload);
  if (entry.header_bytes < sizeof(FatEntry) || entry.packed_bytes > entry.size_bytes ||
      entry.unpacked_bytes > kUnpackedBytesMax) {
    return {};
  }
  const auto unpack = (entry.flags & kPackedByLz4) != 0 ? &unpack_lz4 : &unpack_zstd;
  const std::vector<unsigned char> text = unpack(payload, entry.packed_bytes, entry.unpacked_bytes);
  return text.empty() ? CodeFacts{} : read_code(text.data());
}

}  // namespace

CodeFacts read_fat_binary(const unsigned char* bytes) {
  const auto header = read_value<FatHeader>(bytes);
  CodeFacts best;
  best.kind = CodeFacts::Kind::Unread;
  for (std::uint64_t at = 0; at + sizeof(FatEntry) <= header.size_bytes;) {
    const unsigned char* const place = bytes + header.header_bytes + at;
    const auto entry = read_value<FatEntry>(place);
    CodeFacts facts = read_entry(entry, place + entry.header_bytes);
    if (facts.kind == CodeFacts::Kind::Read) return facts;
    at += entry.header_bytes + entry.size_bytes;
  }
  return best;
}

}  // namespace simcuda
