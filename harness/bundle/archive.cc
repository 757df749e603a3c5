#include "harness/bundle/archive.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/error.h"
#include "workloads/trace/byte_stream.h"

namespace allocmark {
namespace {

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

constexpr std::size_t kRecordBytes = 512;

// The sum of a header's bytes, its own field (at 148, 8 bytes) counted as blanks.
std::uint64_t header_sum(std::string_view header) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < header.size(); ++at) {
    sum += at >= 148 && at < 156 ? ' ' : static_cast<unsigned char>(header[at]);
  }
  return sum;
}

// Of the header only the name (at 0), the size (at 124), the sum (at 148), the kind (at 156) and
// the name's folder (at 345) matter. A whole archive ends with a record of zeros.
TarContents parse_tar(std::string_view tar) {
  TarContents contents;
  const auto damaged = [&](const char* how) {
    contents.damage = how;
    return contents;
  };
  for (std::size_t at = 0; at < tar.size();) {
    if (tar[at] == '\0') return contents;
    if (tar.size() - at < kRecordBytes) return damaged("it is cut short: half a header");
    const std::string_view header = tar.substr(at, kRecordBytes);
    std::uint64_t size_bytes = 0;
    std::uint64_t sum = 0;
    if (!read_octal(header.substr(124, 12), size_bytes))
      return damaged("this is no tar archive: a header without a size");
    if (!read_octal(header.substr(148, 8), sum) || sum != header_sum(header))
      return damaged("a header has been changed: its sum is wrong");
    at += kRecordBytes;
    if (size_bytes > tar.size() - at) return damaged("it is cut short: half a file");
    const bool has_folder = header.substr(257, 5) == "ustar" && header[345] != '\0';
    const std::string folder = has_folder ? text_field(header.substr(345, 155)) + "/" : "";
    std::string name = folder + text_field(header.substr(0, 100));
    const char kind = header[156];
    if (kind == '0' || kind == '\0') {
      contents.files.push_back({std::move(name), std::string(tar.substr(at, size_bytes))});
    } else if (kind != '5') {
      contents.others.push_back(std::move(name));
    }
    at += (size_bytes + kRecordBytes - 1) / kRecordBytes * kRecordBytes;
  }
  return damaged("it is cut short: its end is missing");
}

std::string octal_field(std::uint64_t value, std::size_t digit_count) {
  return fmt::format("{:0{}o}", value, digit_count) + std::string(1, '\0');
}

std::string tar_header(const ArchiveFile& file) {
  ALLOCMARK_ASSERT(file.name.size() <= 100);
  std::string header = file.name;
  header.resize(100, '\0');
  header += octal_field(0644, 7) + octal_field(0, 7) + octal_field(0, 7);
  header += octal_field(file.text.size(), 11) + octal_field(0, 11);
  header += std::string(8, ' ') + "0";
  header.resize(257, '\0');
  header += std::string("ustar\0", 6) + "00";
  header.resize(kRecordBytes, '\0');
  header.replace(148, 8, octal_field(header_sum(header), 6) + " ");
  return header;
}

}  // namespace

TarContents read_tar(const std::string& path, std::uint64_t size_bytes_max) {
  ByteReader reader(path);
  std::string tar;
  std::vector<char> buffer(1 << 16);
  for (std::size_t count = 0; (count = reader.read(buffer)) > 0;) {
    tar.append(buffer.data(), count);
    if (tar.size() <= size_bytes_max) continue;
    TarContents contents;
    contents.damage = fmt::format("it unpacks to more than {} bytes", size_bytes_max);
    return contents;
  }
  TarContents contents = parse_tar(tar);
  if (!reader.damage().empty()) contents.damage = reader.damage();
  return contents;
}

std::vector<ArchiveFile> read_whole_tar(const std::string& path) {
  TarContents contents = read_tar(path, kWholeTarBytesMax);
  if (contents.damage.empty()) return std::move(contents.files);
  throw UsageError({.what = "the archive is damaged",
                    .where = path,
                    .wanted = "a whole .tar, .tar.gz or .tar.zst archive",
                    .got = contents.damage,
                    .next = "get the file again"});
}

void write_tar(const std::string& path, const std::vector<ArchiveFile>& files) {
  ByteWriter writer(path);
  for (const ArchiveFile& file : files) {
    writer.write(tar_header(file));
    writer.write(file.text);
    const std::size_t rest = file.text.size() % kRecordBytes;
    if (rest > 0) writer.write(std::string(kRecordBytes - rest, '\0'));
  }
  writer.write(std::string(2 * kRecordBytes, '\0'));
  writer.finish();
}

}  // namespace allocmark
