#include "base/streams.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

namespace allocmark {
namespace {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t size_bytes = 1;
  bool valid = false;
  bool cut_short = false;  // what is there is the beginning of one
};

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {.value = lead, .valid = true};
  const std::size_t size_bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {};
  std::uint32_t value = lead & (0x7FU >> size_bytes);
  for (std::size_t at = 1; at < size_bytes; ++at) {
    if (at >= text.size()) return {.cut_short = true};
    if ((byte(at) & 0xC0U) != 0x80U) return {};
    value = value << 6U | (byte(at) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLowest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kLowest.at(size_bytes) || value > 0x10FFFF || surrogate) return {};
  return {.value = value, .size_bytes = size_bytes, .valid = true};
}

bool is_obeyed(std::uint32_t value) {
  if (value == '\n' || value == '\t') return false;
  const bool control = value < 0x20 || (value >= 0x7F && value < 0xA0);
  // Direction of writing, and separators of lines.
  const bool direction = (value >= 0x202A && value <= 0x202E) ||
                         (value >= 0x2066 && value <= 0x2069) || value == 0x200E ||
                         value == 0x200F || value == 0x061C;
  return control || direction || value == 0x2028 || value == 0x2029;
}

// Made visible up to what is the beginning of a character; `rest` gets that.
std::string make_visible(std::string_view text, std::string* rest) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.cut_short && rest != nullptr) {
      *rest = text;
      return out;
    }
    const std::string_view bytes = text.substr(0, point.size_bytes);
    // A carriage return before a newline moves nothing.
    const bool line_end = bytes == "\r" && text.substr(1, 1) == "\n";
    if (bytes == "\r" && text.size() == 1 && rest != nullptr) {
      *rest = text;
      return out;
    }
    if (!point.valid) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    } else if (line_end || !is_obeyed(point.value)) {
      out += bytes;
    } else if (point.value < 0x20) {
      out += fmt::format("\\x{:02x}", point.value);
    } else {
      // As JSON writes it too, so that a document stays one.
      out += fmt::format("\\u{:04x}", point.value);
    }
    text.remove_prefix(bytes.size());
  }
  return out;
}

struct Sink {
  int fd;
  std::string rest = {};  // the beginning of a character
  int error = 0;          // errno of the first write that failed
};
Sink stdout_sink{.fd = STDOUT_FILENO};
Sink stderr_sink{.fd = STDERR_FILENO};
bool guarded = false;

void write_to(Sink& sink, std::string_view text) {
  while (!text.empty() && sink.error == 0) {
    const ssize_t count = ::write(sink.fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      // A terminal or pipe that somebody else made non-blocking.
      usleep(1000);
      continue;
    }
    if (count <= 0) {
      sink.error = count < 0 ? errno : ENOSPC;
    } else {
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }
}

// What fopencookie calls. It never says that writing failed: fmt would throw, wherever it stands.
ssize_t write_visible(void* cookie, const char* bytes, std::size_t byte_count) {
  Sink& sink = *static_cast<Sink*>(cookie);
  const std::string text = std::exchange(sink.rest, {}) + std::string(bytes, byte_count);
  write_to(sink, make_visible(text, &sink.rest));
  return static_cast<ssize_t>(byte_count);
}

std::FILE* open_sink(Sink& sink, int buffering) {
  std::FILE* const stream = fopencookie(
      &sink, "w", {.read = nullptr, .write = write_visible, .seek = nullptr, .close = nullptr});
  if (stream != nullptr) static_cast<void>(setvbuf(stream, nullptr, buffering, BUFSIZ));
  return stream;
}

// A closed stream becomes one on which its use fails as before.
void keep_number(int fd, int flags) {
  if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) return;
  [[maybe_unused]] const int opened = open("/dev/null", flags);
}

}  // namespace

std::string visible_text(std::string_view text) { return make_visible(text, nullptr); }

void guard_streams() {
  if (std::exchange(guarded, true)) return;
  keep_number(STDIN_FILENO, O_RDONLY);
  keep_number(STDOUT_FILENO, O_RDONLY);
  keep_number(STDERR_FILENO, O_WRONLY);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  if (std::FILE* out = open_sink(stdout_sink, isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF)) {
    stdout = out;
  }
  if (std::FILE* notes = open_sink(stderr_sink, _IONBF)) stderr = notes;
}

StreamEnd end_of_stdout() {
  const bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!stdout_sink.rest.empty()) write_to(stdout_sink, visible_text(stdout_sink.rest));
  stdout_sink.rest.clear();
  if (stdout_sink.error == EPIPE) return StreamEnd::ReaderGone;
  return flushed && stdout_sink.error == 0 ? StreamEnd::Whole : StreamEnd::Failed;
}

void clear_terminal_line(std::FILE* stream) {
  constexpr std::string_view kClear = "\r\033[K";
  std::fflush(stream);
  if (guarded && stream == stderr) {
    write_to(stderr_sink, kClear);
  } else {
    static_cast<void>(std::fwrite(kClear.data(), 1, kClear.size(), stream));
  }
}

}  // namespace allocmark
