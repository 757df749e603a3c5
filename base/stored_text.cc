// See stored_text.h.
#include "base/stored_text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/write_fully.h"

namespace allocmark {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

[[noreturn]] void no_room(const std::string& name, int error = errno) {
  throw WriteError({.what = "cannot keep a long text beside the memory",
                    .where = name,
                    .wanted = "a folder for files of some 100 MiB",
                    .got = std::strerror(error),
                    .next = "name another one: TMPDIR=DIR"});
}

std::string temporary_name() {
  const char* const named = std::getenv("TMPDIR");
  return std::string(named != nullptr && *named != '\0' ? named : "/tmp") +
         "/allocmark-text-XXXXXX";
}

void write_all(int fd, std::string_view bytes) {
  if (const int error = write_fully(fd, bytes); error != 0) no_room(temporary_name(), error);
}

}  // namespace

int open_unnamed_file() {
  std::string name = temporary_name();
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) no_room(name);
  unlink(name.c_str());
  return fd;
}

Spool::~Spool() {
  if (fd_ >= 0) close(fd_);
}

void Spool::append(std::string_view bytes) {
  size_bytes_ += bytes.size();
  if (fd_ < 0 && size_bytes_ <= kSpoolMemoryBytes) {
    memory_ += bytes;
    return;
  }
  if (fd_ < 0) {
    fd_ = open_unnamed_file();
    write_all(fd_, memory_);
    std::string().swap(memory_);
  }
  write_all(fd_, bytes);
}

std::size_t Spool::read(std::uint64_t at_bytes, std::span<char> into) const {
  if (at_bytes >= size_bytes_) return 0;
  into = into.first(std::min<std::uint64_t>(into.size(), size_bytes_ - at_bytes));
  if (fd_ < 0) return memory_.copy(into.data(), into.size(), at_bytes);
  std::size_t total = 0;
  while (total < into.size()) {
    const ssize_t count =
        pread(fd_, into.data() + total, into.size() - total, static_cast<off_t>(at_bytes + total));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) no_room(temporary_name());
    total += static_cast<std::size_t>(count);
  }
  return total;
}

StoredText::StoredText(std::string_view text) {
  if (text.empty()) return;
  const auto spool = std::make_shared<Spool>();
  spool->append(text);
  *this = StoredText(spool);
}

StoredText StoredText::of_file(const std::string& path, const InputKind& kind) {
  StoredText text;
  text.path_ = path;
  text.kind_ = kind;
  text.size_bytes_ = InputFile(path, kind).size_bytes();
  return text;
}

std::size_t StoredText::read(std::uint64_t at_bytes, std::span<char> into) const {
  if (at_bytes >= size_bytes_) return 0;
  into = into.first(std::min<std::uint64_t>(into.size(), size_bytes_ - at_bytes));
  if (path_.empty()) return spool_->read(begin_bytes_ + at_bytes, into);
  InputFile file(path_, kind_);
  file.seek(at_bytes);
  if (file.read(into) == into.size()) return into.size();
  throw FileError({.what = "the file became shorter while it was read",
                   .where = path_,
                   .wanted = fmt::format("{} bytes", size_bytes_),
                   .got = "fewer",
                   .next = "try again when nobody writes it"});
}

ByteSource StoredText::bytes() const {
  return [text = *this, at = std::uint64_t{0}](std::span<char> into) mutable {
    const std::size_t count = text.read(at, into);
    at += count;
    return count;
  };
}

std::string StoredText::whole() const {
  std::string text(size_bytes_, '\0');
  text.resize(read(0, text));
  return text;
}

void StoredText::each_piece(const std::function<void(std::string_view)>& take) const {
  std::vector<char> piece(std::min<std::uint64_t>(kPieceBytes, size_bytes_));
  for (std::uint64_t at = 0; at < size_bytes_;) {
    const std::size_t count = read(at, piece);
    take({piece.data(), count});
    at += count;
  }
}

void StoredText::each_line(std::size_t size_bytes_max,
                           const std::function<void(std::string_view)>& take) const {
  std::string text;
  each_piece([&](std::string_view piece) {
    text += piece;
    std::string_view left = text;
    for (std::size_t end = 0; (end = left.find('\n')) != std::string_view::npos;) {
      take(left.substr(0, end + 1));
      left.remove_prefix(end + 1);
    }
    if (left.size() > size_bytes_max) take(left), left = {};
    text.erase(0, text.size() - left.size());
  });
  if (!text.empty()) take(text);
}

bool StoredText::equals(std::string_view text) const {
  bool same = text.size() == size_bytes_;
  if (!same) return false;
  each_piece([&](std::string_view piece) {
    same = same && text.starts_with(piece);
    text.remove_prefix(piece.size());
  });
  return same;
}

}  // namespace allocmark
