#include "workloads/trace/archive.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/error.h"

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

// Reads an archive from its first byte to its last, one entry in memory at a time.
class TarReader {
 public:
  TarReader(const std::string& path, const UnpackLimits& limits)
      : reader_(path, kArchiveInput), limits_(limits) {}

  TarContents read();

 private:
  // Fills the text; false at the end of the data, and where they are damaged.
  bool fill(std::span<char> into);
  bool read_entry(std::string_view header);
  bool skip(std::uint64_t byte_count);
  bool read_end();
  bool damaged(std::string how);

  ByteReader reader_;
  UnpackLimits limits_;
  std::uint64_t unpacked_bytes_ = 0;
  std::size_t entry_count_ = 0;
  TarContents contents_;
  std::shared_ptr<Spool> spool_ = std::make_shared<Spool>();  // every file, one after the other
};

bool TarReader::damaged(std::string how) {
  if (contents_.damage.empty()) contents_.damage = std::move(how);
  return false;
}

bool TarReader::fill(std::span<char> into) {
  const std::size_t count = reader_.read(into);
  unpacked_bytes_ += count;
  if (!reader_.damage().empty()) return damaged(reader_.damage());
  if (std::string why = beyond_limits(reader_, unpacked_bytes_, limits_); !why.empty()) {
    return damaged(std::move(why));
  }
  return count == into.size();
}

bool TarReader::skip(std::uint64_t byte_count) {
  std::array<char, kRecordBytes> ignored{};
  while (byte_count > 0) {
    const std::size_t count = std::min<std::uint64_t>(byte_count, ignored.size());
    if (!fill(std::span(ignored).first(count))) return damaged("it is cut short: half a file");
    byte_count -= count;
  }
  return true;
}

// Of the header only the name (at 0), the size (at 124), the sum (at 148), the kind (at 156) and
// the name's folder (at 345) matter.
bool TarReader::read_entry(std::string_view header) {
  std::uint64_t size_bytes = 0;
  std::uint64_t sum = 0;
  if (!read_octal(header.substr(124, 12), size_bytes))
    return damaged("this is no tar archive: a header without a size");
  if (!read_octal(header.substr(148, 8), sum) || sum != header_sum(header))
    return damaged("a header has been changed: its sum is wrong");
  if (++entry_count_ > kTarEntryCountMax)
    return damaged(fmt::format("it has more than {} entries", kTarEntryCountMax));
  const bool has_folder = header.substr(257, 5) == "ustar" && header[345] != '\0';
  const std::string folder = has_folder ? text_field(header.substr(345, 155)) + "/" : "";
  std::string name = folder + text_field(header.substr(0, 100));
  const char kind = header[156];
  const std::uint64_t padding = (kRecordBytes - size_bytes % kRecordBytes) % kRecordBytes;
  if (kind != '0' && kind != '\0') {
    (kind == '5' ? contents_.folders : contents_.others).push_back(std::move(name));
    return size_bytes <= limits_.size_bytes_max && skip(size_bytes + padding);
  }
  // The size is only what the header says: what is there is taken piece by piece.
  constexpr std::uint64_t kPieceBytes = kMiB;
  std::string piece;
  const std::uint64_t begin_bytes = spool_->size_bytes();
  for (std::uint64_t left = size_bytes; left > 0; left -= piece.size()) {
    piece.resize(std::min(left, kPieceBytes));
    if (!fill(piece)) return damaged("it is cut short: half a file");
    spool_->append(piece);
  }
  contents_.files.push_back({std::move(name), StoredText(spool_, begin_bytes, size_bytes)});
  return skip(padding);
}

// After the first record of zeros nothing but zeros may follow.
bool TarReader::read_end() {
  std::array<char, kRecordBytes> record{};
  for (bool whole = true; whole;) {
    record.fill('\0');
    whole = fill(record);
    if (std::ranges::any_of(record, [](char byte) { return byte != '\0'; }))
      return damaged("bytes follow its end");
  }
  return contents_.damage.empty();
}

TarContents TarReader::read() {
  std::array<char, kRecordBytes> record{};
  while (contents_.damage.empty()) {
    if (!fill(record)) {
      damaged(unpacked_bytes_ % kRecordBytes == 0 ? "it is cut short: its end is missing"
                                                  : "it is cut short: half a header");
    } else if (std::ranges::all_of(record, [](char byte) { return byte == '\0'; })) {
      read_end();
      break;
    } else if (!read_entry({record.data(), record.size()})) {
      damaged("an entry is larger than an archive may be");
    }
  }
  return std::move(contents_);
}

std::string octal_field(std::uint64_t value, std::size_t digit_count) {
  return fmt::format("{:0{}o}", value, digit_count) + std::string(1, '\0');
}

std::string tar_header(const StoredFile& file) {
  ALLOCMARK_ASSERT(file.name.size() <= 100);
  std::string header = file.name;
  header.resize(100, '\0');
  header += octal_field(0644, 7) + octal_field(0, 7) + octal_field(0, 7);
  header += octal_field(file.text.size_bytes(), 11) + octal_field(0, 11);
  header += std::string(8, ' ') + "0";
  header.resize(257, '\0');
  header += std::string("ustar\0", 6) + "00";
  header.resize(kRecordBytes, '\0');
  header.replace(148, 8, octal_field(header_sum(header), 6) + " ");
  return header;
}

}  // namespace

TarContents read_tar(const std::string& path, const UnpackLimits& limits) {
  return TarReader(path, limits).read();
}

std::vector<ArchiveFile> read_whole_tar(const std::string& path) {
  TarContents contents = read_tar(path, {});
  if (contents.damage.empty()) {
    std::vector<ArchiveFile> files;
    for (StoredFile& file : contents.files)
      files.push_back({std::move(file.name), file.text.whole()});
    return files;
  }
  throw UsageError({.what = "the archive is damaged",
                    .where = path,
                    .wanted = "a whole .tar, .tar.gz or .tar.zst archive",
                    .got = contents.damage,
                    .next = "get the file again"});
}

void write_tar(const std::string& path, const std::vector<StoredFile>& files) {
  ByteWriter writer(path);
  for (const StoredFile& file : files) {
    writer.write(tar_header(file));
    file.text.each_piece([&](std::string_view piece) { writer.write(piece); });
    const std::size_t rest = file.text.size_bytes() % kRecordBytes;
    if (rest > 0) writer.write(std::string(kRecordBytes - rest, '\0'));
  }
  writer.write(std::string(2 * kRecordBytes, '\0'));
  writer.finish();
}

}  // namespace allocmark
