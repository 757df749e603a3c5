#include "workloads/trace/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace allocmark {
namespace {

enum class Packing { Plain, Gzip, Zstd };

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr int kGzipLevel = 6;
constexpr int kZstdLevel = 3;
constexpr int kGzipWindowBits = 15 + 16;  // zlib's way of asking for the gzip format

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

Packing packing_of(const std::string& path) {
  if (path.ends_with(".gz")) return Packing::Gzip;
  if (path.ends_with(".zst")) return Packing::Zstd;
  return Packing::Plain;
}

[[noreturn]] void throw_unreadable(const std::string& path, const std::string& reason) {
  throw FileError({.what = "cannot read trace file",
                   .where = path,
                   .wanted = "a readable file",
                   .got = reason,
                   .next = "Check the path and its permissions"});
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
  std::string path;
  Packing packing = Packing::Plain;
  File file;
  std::vector<char> packed;  // bytes read from the file and not unpacked yet
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
  std::rewind(file.get());
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
  const std::size_t byte_count = std::fread(into.data(), 1, into.size(), file.get());
  if (byte_count < into.size() && std::ferror(file.get()) != 0) {
    throw_unreadable(path, std::strerror(errno));
  }
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
    if (ZSTD_isError(status) != 0) {
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

ByteReader::ByteReader(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->packing = packing_of(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw_unreadable(path, "a folder");
  state_->file.reset(std::fopen(path.c_str(), "rb"));
  if (!state_->file) throw_unreadable(path, std::strerror(errno));
  if (state_->packing != Packing::Plain) state_->packed.resize(kChunkBytes);
  if (state_->packing == Packing::Gzip) inflateInit2(&state_->gzip, kGzipWindowBits);
  if (state_->packing == Packing::Zstd) state_->zstd = ZSTD_createDStream();
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

struct ByteWriter::State {
  std::string path;
  std::string part_path;
  Packing packing = Packing::Plain;
  File file;
  std::vector<char> packed;
  z_stream gzip{};
  ZSTD_CStream* zstd = nullptr;

  ~State() {
    deflateEnd(&gzip);
    ZSTD_freeCStream(zstd);
    const bool unfinished = file != nullptr;
    file.reset();
    if (unfinished) std::remove(part_path.c_str());
  }
  void put(const char* bytes, std::size_t byte_count);
  void pack_gzip(std::string_view bytes, int flush);
  void pack_zstd(std::string_view bytes, ZSTD_EndDirective end);
};

void ByteWriter::State::put(const char* bytes, std::size_t byte_count) {
  if (std::fwrite(bytes, 1, byte_count, file.get()) != byte_count) {
    throw_unwritable(path, std::strerror(errno));
  }
}

void ByteWriter::State::pack_gzip(std::string_view bytes, int flush) {
  gzip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  gzip.avail_in = static_cast<uInt>(bytes.size());
  do {
    gzip.next_out = reinterpret_cast<Bytef*>(packed.data());
    gzip.avail_out = static_cast<uInt>(packed.size());
    deflate(&gzip, flush);
    put(packed.data(), packed.size() - gzip.avail_out);
  } while (gzip.avail_out == 0);
}

void ByteWriter::State::pack_zstd(std::string_view bytes, ZSTD_EndDirective end) {
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::size_t left = 0;
  do {
    ZSTD_outBuffer out{packed.data(), packed.size(), 0};
    left = ZSTD_compressStream2(zstd, &out, &in, end);
    if (ZSTD_isError(left) != 0) throw_unwritable(path, ZSTD_getErrorName(left));
    put(packed.data(), out.pos);
  } while (end == ZSTD_e_end ? left != 0 : in.pos < in.size);
}

ByteWriter::ByteWriter(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->part_path = path + ".part";
  state_->packing = packing_of(path);
  state_->file.reset(std::fopen(state_->part_path.c_str(), "wb"));
  if (!state_->file) throw_unwritable(path, std::strerror(errno));
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
  state_->put(bytes.data(), bytes.size());
}

void ByteWriter::finish() {
  if (state_->packing == Packing::Gzip) state_->pack_gzip({}, Z_FINISH);
  if (state_->packing == Packing::Zstd) state_->pack_zstd({}, ZSTD_e_end);
  const bool flushed = std::fflush(state_->file.get()) == 0;
  const int reason = errno;
  if (!flushed) throw_unwritable(state_->path, std::strerror(reason));
  state_->file.reset();
  std::error_code failure;
  std::filesystem::rename(state_->part_path, state_->path, failure);
  if (failure) {
    std::remove(state_->part_path.c_str());
    throw_unwritable(state_->path, failure.message());
  }
}

}  // namespace allocmark
