#include "workloads/trace/byte_stream.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <array>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_file.h"

namespace allocmark {

enum class Packing { Plain, Gzip, Zstd };

namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr int kGzipLevel = 6;
constexpr int kZstdLevel = 3;
constexpr int kZstdWindowLogMax = 26;     // 64 MiB, which is what a reader may be made to hold
constexpr int kGzipWindowBits = 15 + 16;  // zlib's way of asking for the gzip format

// Of a file to write.
Packing packing_of(const std::string& path) {
  if (path.ends_with(".gz")) return Packing::Gzip;
  if (path.ends_with(".zst")) return Packing::Zstd;
  return Packing::Plain;
}

// Of data to read: browsers and copies change names.
Packing packing_of_bytes(std::string_view bytes) {
  if (bytes.starts_with("\x1f\x8b")) return Packing::Gzip;
  if (bytes.starts_with("\x28\xb5\x2f\xfd")) return Packing::Zstd;
  return Packing::Plain;
}

struct OtherPacker {
  std::string_view head;
  std::string_view program;
};
constexpr std::array kOtherPackers = {OtherPacker{"\xfd\x37zX", "xz"}, OtherPacker{"BZh", "bzip2"},
                                      OtherPacker{"\x04\x22\x4d\x18", "lz4"}};

void refuse_other_packers(std::string_view bytes, const std::string& path) {
  for (const auto& [head, program] : kOtherPackers) {
    if (!bytes.starts_with(head)) continue;
    throw UsageError({.what = fmt::format("a file packed with {} is not read", program),
                      .where = path,
                      .wanted = "a plain file, or one packed with gzip or zstd",
                      .next = fmt::format("unpack it: {} -d FILE", program)});
  }
}

[[noreturn]] void throw_unwritable(const std::string& path, const std::string& reason) {
  throw FileError({.what = "cannot write file",
                   .where = path,
                   .wanted = "a writable folder with enough space",
                   .got = reason,
                   .next = "Free some space or choose another folder"});
}

}  // namespace

struct ByteReader::State {
  State(const std::string& path, const InputKind& kind) : file(path, kind) {}

  Packing packing = Packing::Plain;
  InputFile file;
  std::uint64_t file_bytes = 0;  // read so far
  std::vector<char> packed;      // bytes read from the file and not unpacked yet
  std::size_t packed_begin = 0;
  std::size_t packed_end = 0;
  z_stream gzip{};
  ZSTD_DStream* zstd = nullptr;
  bool in_member = false;  // inside a gzip member or zstd frame: the file must not end here
  std::string damage;

  ~State() {
    inflateEnd(&gzip);
    ZSTD_freeDStream(zstd);
  }
  void start();
  bool refill();
  std::size_t read_plain(std::span<char> into);
  std::size_t read_gzip(std::span<char> into);
  std::size_t read_zstd(std::span<char> into);
};

void ByteReader::State::start() {
  file.rewind();
  file_bytes = 0;
  packed_begin = packed_end = 0;
  in_member = false;
  damage.clear();
  if (packing == Packing::Gzip) inflateReset(&gzip);
  if (packing == Packing::Zstd) ZSTD_initDStream(zstd);
}

// False at the end of the file.
bool ByteReader::State::refill() {
  if (packed_begin < packed_end) return true;
  packed_begin = 0;
  packed_end = read_plain(packed);
  return packed_end > 0;
}

std::size_t ByteReader::State::read_plain(std::span<char> into) {
  const std::size_t byte_count = file.read(into);
  file_bytes += byte_count;
  return byte_count;
}

std::size_t ByteReader::State::read_gzip(std::span<char> into) {
  gzip.next_out = reinterpret_cast<Bytef*>(into.data());
  gzip.avail_out = static_cast<uInt>(into.size());
  while (gzip.avail_out > 0 && damage.empty()) {
    if (!refill()) {
      if (in_member) damage = "the gzip data end in mid-stream";
      break;
    }
    in_member = true;
    gzip.next_in = reinterpret_cast<Bytef*>(packed.data() + packed_begin);
    gzip.avail_in = static_cast<uInt>(packed_end - packed_begin);
    const int status = inflate(&gzip, Z_NO_FLUSH);
    packed_begin = packed_end - gzip.avail_in;
    if (status == Z_STREAM_END) {
      // A gzip file may hold several members, one after the other.
      in_member = false;
      inflateReset(&gzip);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      damage =
          std::string("the gzip data are damaged (") + (gzip.msg != nullptr ? gzip.msg : "?") + ")";
    }
  }
  return into.size() - gzip.avail_out;
}

std::size_t ByteReader::State::read_zstd(std::span<char> into) {
  ZSTD_outBuffer out{into.data(), into.size(), 0};
  while (out.pos < out.size && damage.empty()) {
    const bool more = refill();
    ZSTD_inBuffer in{packed.data(), packed_end, packed_begin};
    const std::size_t out_before = out.pos;
    const std::size_t status = ZSTD_decompressStream(zstd, &out, &in);
    packed_begin = in.pos;
    if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge) {
      damage = fmt::format(
          "zstd data with a window of more than {} MiB (pack it without --long and --ultra)",
          1 << (kZstdWindowLogMax - 20));
    } else if (ZSTD_isError(status) != 0) {
      damage = std::string("the zstd data are damaged (") + ZSTD_getErrorName(status) + ")";
    } else if (more) {
      in_member = status != 0;
    } else if (out.pos == out_before) {
      if (in_member) damage = "the zstd data end in mid-stream";
      break;
    }
  }
  return out.pos;
}

ByteReader::ByteReader(const std::string& path, const InputKind& kind)
    : state_(std::make_unique<State>(path, kind)) {
  std::array<char, 4> first{};
  std::size_t count = 0;
  while (count < first.size()) {
    const std::size_t more = state_->file.read(std::span(first).subspan(count));
    if (more == 0) break;
    count += more;
  }
  refuse_other_packers({first.data(), count}, path);
  state_->packing = packing_of_bytes({first.data(), count});
  if (state_->packing != Packing::Plain) state_->packed.resize(kChunkBytes);
  if (state_->packing == Packing::Gzip) inflateInit2(&state_->gzip, kGzipWindowBits);
  if (state_->packing == Packing::Zstd) {
    state_->zstd = ZSTD_createDStream();
    ZSTD_DCtx_setParameter(state_->zstd, ZSTD_d_windowLogMax, kZstdWindowLogMax);
  }
  state_->start();
}

ByteReader::~ByteReader() = default;

std::size_t ByteReader::read(std::span<char> into) {
  if (state_->packing == Packing::Gzip) return state_->read_gzip(into);
  if (state_->packing == Packing::Zstd) return state_->read_zstd(into);
  return state_->read_plain(into);
}

const std::string& ByteReader::damage() const { return state_->damage; }

void ByteReader::rewind() { state_->start(); }

std::uint64_t ByteReader::packed_bytes() const { return state_->file_bytes; }

struct ByteWriter::State {
  explicit State(const std::string& named) : path(named), file(named) {}

  std::string path;
  Packing packing = Packing::Plain;
  OutputFile file;
  std::vector<char> packed;
  z_stream gzip{};
  ZSTD_CStream* zstd = nullptr;

  ~State() {
    deflateEnd(&gzip);
    ZSTD_freeCStream(zstd);
  }
  void pack_gzip(std::string_view bytes, int flush);
  void pack_zstd(std::string_view bytes, ZSTD_EndDirective end);
};

void ByteWriter::State::pack_gzip(std::string_view bytes, int flush) {
  gzip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  gzip.avail_in = static_cast<uInt>(bytes.size());
  do {
    gzip.next_out = reinterpret_cast<Bytef*>(packed.data());
    gzip.avail_out = static_cast<uInt>(packed.size());
    deflate(&gzip, flush);
    file.write({packed.data(), packed.size() - gzip.avail_out});
  } while (gzip.avail_out == 0);
}

void ByteWriter::State::pack_zstd(std::string_view bytes, ZSTD_EndDirective end) {
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::size_t left = 0;
  do {
    ZSTD_outBuffer out{packed.data(), packed.size(), 0};
    left = ZSTD_compressStream2(zstd, &out, &in, end);
    if (ZSTD_isError(left) != 0) throw_unwritable(path, ZSTD_getErrorName(left));
    file.write({packed.data(), out.pos});
  } while (end == ZSTD_e_end ? left != 0 : in.pos < in.size);
}

ByteWriter::ByteWriter(const std::string& path) : state_(std::make_unique<State>(path)) {
  state_->packing = packing_of(path);
  if (state_->packing != Packing::Plain) state_->packed.resize(kChunkBytes);
  if (state_->packing == Packing::Gzip) {
    deflateInit2(&state_->gzip, kGzipLevel, Z_DEFLATED, kGzipWindowBits, 8, Z_DEFAULT_STRATEGY);
  }
  if (state_->packing == Packing::Zstd) {
    state_->zstd = ZSTD_createCStream();
    ZSTD_CCtx_setParameter(state_->zstd, ZSTD_c_compressionLevel, kZstdLevel);
    ZSTD_CCtx_setParameter(state_->zstd, ZSTD_c_checksumFlag, 1);
  }
}

ByteWriter::~ByteWriter() = default;

void ByteWriter::write(std::string_view bytes) {
  if (state_->packing == Packing::Gzip) return state_->pack_gzip(bytes, Z_NO_FLUSH);
  if (state_->packing == Packing::Zstd) return state_->pack_zstd(bytes, ZSTD_e_continue);
  state_->file.write(bytes);
}

void ByteWriter::finish() {
  if (state_->packing == Packing::Gzip) state_->pack_gzip({}, Z_FINISH);
  if (state_->packing == Packing::Zstd) state_->pack_zstd({}, ZSTD_e_end);
  state_->file.finish();
}

std::string beyond_limits(const ByteReader& reader, std::uint64_t unpacked_bytes,
                          const UnpackLimits& limits) {
  if (unpacked_bytes > limits.size_bytes_max) {
    return fmt::format("it unpacks to more than {} bytes", limits.size_bytes_max);
  }
  const bool free = unpacked_bytes <= kUnpackFreeBytes;
  if (free || unpacked_bytes / limits.ratio_max <= reader.packed_bytes()) return "";
  return fmt::format("it unpacks to more than {} times its size", limits.ratio_max);
}

std::string read_unpacked(const std::string& path, const InputKind& kind, const std::string& what,
                          const UnpackLimits& limits) {
  ByteReader reader(path, kind);
  std::string text;
  std::string problem;
  std::vector<char> buffer(kChunkBytes);
  while (const std::size_t count = problem.empty() ? reader.read(buffer) : 0) {
    text.append(buffer.data(), count);
    problem = beyond_limits(reader, text.size(), limits);
  }
  if (!reader.damage().empty()) problem = reader.damage();
  if (problem.empty()) return text;
  throw UsageError({.what = what, .where = path, .got = problem, .next = "get the file again"});
}

}  // namespace allocmark
