#include "harness/archive.h"

#ifdef ALLOCMARK_HAS_LZMA
#include <lzma.h>
#endif

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace allocmark {
namespace {

[[noreturn]] void fail(const std::string& path, std::string what, std::string got) {
  throw UsageError({.what = std::move(what),
                    .where = path,
                    .wanted = "a whole .tar.xz archive",
                    .got = std::move(got),
                    .next = "get the file again"});
}

#ifdef ALLOCMARK_HAS_LZMA
std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "the archive cannot be opened", "");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string unpack(const std::string& path) {
  const std::string packed = read_file(path);
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK)
    fail(path, "liblzma does not start", "");
  stream.next_in = reinterpret_cast<const std::uint8_t*>(packed.data());
  stream.avail_in = packed.size();
  std::string result;
  std::array<char, 1 << 16> buffer{};
  lzma_ret code = LZMA_OK;
  while (code == LZMA_OK) {
    stream.next_out = reinterpret_cast<std::uint8_t*>(buffer.data());
    stream.avail_out = buffer.size();
    code = lzma_code(&stream, LZMA_FINISH);
    result.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (code == LZMA_BUF_ERROR) fail(path, "the archive is cut short", "its end in mid-stream");
  if (code == LZMA_FORMAT_ERROR) fail(path, "this is no .xz file", "another format");
  if (code != LZMA_STREAM_END) fail(path, "the archive is damaged", "data that do not unpack");
  return result;
}
#else
std::string unpack(const std::string& path) {
  throw EnvironmentError({.what = "this allocmark cannot read .tar.xz archives",
                          .where = path,
                          .wanted = "a build with liblzma",
                          .got = {},
                          .next = "unpack it (tar xf) and give the folder"});
}
#endif

// A field of a tar header: octal digits, then blanks or zeros.
bool read_octal(std::string_view field, std::uint64_t& value) {
  const std::size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) return false;
  const auto [end, error] =
      std::from_chars(field.data() + begin, field.data() + field.size(), value, 8);
  return error == std::errc() &&
         (end == field.data() + field.size() || *end == '\0' || *end == ' ');
}

std::string text_field(std::string_view field) {
  return std::string(field.substr(0, field.find('\0')));
}

}  // namespace

// Of the header only the name (at 0), the size (at 124), the kind (at 156) and the name's folder
// (at 345) matter.
std::vector<ArchiveFile> read_tar_xz(const std::string& path) {
  constexpr std::size_t kRecord = 512;
  const std::string tar = unpack(path);
  std::vector<ArchiveFile> files;
  for (std::size_t at = 0; at < tar.size() && tar[at] != '\0';) {
    if (tar.size() - at < kRecord) fail(path, "the archive is cut short", "half a header");
    const std::string_view header(tar.data() + at, kRecord);
    std::uint64_t size_bytes = 0;
    if (!read_octal(header.substr(124, 12), size_bytes))
      fail(path, "this is no tar archive", "a header without a size");
    at += kRecord;
    if (size_bytes > tar.size() - at) fail(path, "the archive is cut short", "half a file");
    const bool has_folder = header.substr(257, 5) == "ustar" && header[345] != '\0';
    const std::string folder = has_folder ? text_field(header.substr(345, 155)) + "/" : "";
    const char kind = header[156];
    if (kind == '0' || kind == '\0')
      files.push_back({folder + text_field(header.substr(0, 100)), tar.substr(at, size_bytes)});
    at += (size_bytes + kRecord - 1) / kRecord * kRecord;
  }
  return files;
}

}  // namespace allocmark
