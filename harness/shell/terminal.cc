// See terminal.h.
#include "harness/shell/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>
#include "base/number_text.h"
#include "harness/shell/fit_text.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

// More is taken for nonsense.
constexpr std::size_t kWidthMax = 1000;

// 0 where it is not set or no number.
std::size_t named_width() {
  const char* const text = std::getenv("COLUMNS");
  if (text == nullptr) return 0;
  const std::size_t width = number_in_text<std::size_t>(text).value_or(0);
  return width <= kWidthMax ? width : 0;
}

// A process has one stderr: where --quiet keeps it, and -1 where it is in its place.
int kept_stderr = -1;

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

QuietStderr::QuietStderr(bool quiet) {
  if (!quiet) return;
  kept_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (kept_stderr >= 0 && nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  if (nowhere >= 0) close(nowhere);
}

QuietStderr::~QuietStderr() {
  if (kept_stderr < 0) return;
  (void)std::fflush(stderr);
  dup2(kept_stderr, STDERR_FILENO);
  close(kept_stderr);
  kept_stderr = -1;
}

void print_warning(std::string_view text) {
  (void)std::fflush(stderr);
  const int quiet = kept_stderr < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  if (quiet >= 0) dup2(kept_stderr, STDERR_FILENO);
  print_wrapped(stderr, text);
  (void)std::fflush(stderr);
  if (quiet < 0) return;
  dup2(quiet, STDERR_FILENO);
  close(quiet);
}

}  // namespace allocmark
