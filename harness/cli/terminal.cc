// See terminal.h.
#include "harness/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include "harness/cli/fit_text.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

// More is taken for nonsense.
constexpr std::size_t kWidthMax = 1000;

// 0 where it is not set or no number.
std::size_t named_width() {
  const char* const text = std::getenv("COLUMNS");
  if (text == nullptr) return 0;
  std::size_t width = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, width);
  return error == std::errc() && stop == end && width <= kWidthMax ? width : 0;
}

}  // namespace

std::size_t known_width(std::FILE* stream) {
  if (const std::size_t width = named_width(); width > 0) return width;
  winsize size{};
  // A terminal that does not know its width says 0.
  // What guard_streams put in the place of stdout and stderr has no number of its own.
  const int fd = stream == stdout   ? STDOUT_FILENO
                 : stream == stderr ? STDERR_FILENO
                                    : fileno(stream);
  if (isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 0;
}

std::size_t output_width(std::FILE* stream) {
  const std::size_t width = known_width(stream);
  return width > 0 ? width : kPipeWidth;
}

void print_fitted(std::FILE* stream, std::string_view text) {
  const std::size_t width = known_width(stream);
  fmt::print(stream, "{}", width > 0 ? fit_text(text, width) : std::string(text));
}

void print_wrapped(std::FILE* stream, std::string_view text) {
  fmt::print(stream, "{}\n", wrap_words(text, output_width(stream)));
}

}  // namespace allocmark
