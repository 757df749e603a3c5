// See terminal.h.
#include "harness/shell/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include "base/number_text.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

// Text for people made to fit a width. Lines flow in as they were written; lines of at most so many
// columns flow out. What is to be pasted, and words that are longer by themselves, stay whole.

constexpr std::string_view kGap = "  ";

constexpr std::size_t kHangColumns = 4;

std::size_t first_column(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Where the first gap behind the first word begins and ends.
struct Gap {
  std::size_t begin, end;
};

std::optional<Gap> next_gap(std::string_view line, std::size_t from) {
  const std::size_t begin = line.find(kGap, std::max(from, first_column(line)));
  if (begin == std::string_view::npos) return std::nullopt;
  return Gap{.begin = begin, .end = line.find_first_not_of(' ', begin)};
}

bool is_row(std::string_view line) {
  const std::optional<Gap> first = next_gap(line, 0);
  return first && next_gap(line, first->end);
}

bool is_for_pasting(std::string_view line) {
  const std::string_view body = line.substr(first_column(line));
  return body.starts_with("allocmark ") || body.find("export PYTORCH") != std::string_view::npos;
}

// `head`, then the words, each further line behind `indent` spaces.
std::string wrapped(std::string_view head, std::string_view words, std::size_t indent,
                    std::size_t width) {
  std::string text(head);
  std::size_t used = display_width(head);
  bool begins = true;  // of a line
  while (!words.empty()) {
    const std::size_t end = unbroken_bytes(words);
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(words.find_first_not_of(' ', end), words.size()));
    if (!begins && used + 1 + display_width(word) > width) {
      text += "\n" + std::string(indent, ' ');
      used = indent;
      begins = true;
    }
    if (!begins) text += " ";
    text += word;
    used += display_width(word) + (begins ? 0 : 1);
    begins = false;
  }
  return text;
}

std::string fit_line(std::string_view line, std::size_t width) {
  if (display_width(line) <= width || is_for_pasting(line)) return std::string(line);
  // The last column that leaves half of the width.
  std::size_t indent = 0;
  for (auto gap = next_gap(line, 0); gap && gap->end <= width / 2; gap = next_gap(line, gap->end)) {
    indent = gap->end;
  }
  if (indent > 0) return wrapped(line.substr(0, indent), line.substr(indent), indent, width);
  const std::size_t first = first_column(line);
  const std::size_t hang = first + kHangColumns;
  if (const std::optional<Gap> gap = next_gap(line, 0)) {
    return wrapped(line.substr(0, first), line.substr(first, gap->begin - first), hang, width) +
           "\n" + wrapped(std::string(hang, ' '), line.substr(gap->end), hang, width);
  }
  return wrapped(line.substr(0, first), line.substr(first), hang, width);
}

// Every row is moved left by the same number of columns, so that they stay below each other.
std::string fit_rows(std::span<const std::string_view> rows, std::size_t width) {
  std::size_t widest = 0;
  std::size_t indent = width;  // of what follows the first column
  for (const std::string_view row : rows) {
    widest = std::max(widest, display_width(row));
    indent = std::min(indent, next_gap(row, 0)->end);
  }
  const std::size_t over = widest > width ? widest - width : 0;
  const bool is_possible = indent >= over + kHangColumns;
  std::string text;
  for (const std::string_view row : rows) {
    const Gap gap = *next_gap(row, 0);
    if (over == 0) {
      text += row;
    } else if (!is_possible) {
      text += fit_line(row, width);
    } else {
      const std::string_view head = row.substr(0, gap.begin);
      const std::size_t rest_begin = gap.end - over;
      const bool fits = gap.begin + kGap.size() <= rest_begin;
      text += std::string(head) + (fits ? "" : "\n") +
              std::string(fits ? rest_begin - gap.begin : rest_begin, ' ');
      text += row.substr(gap.end);
    }
    text += "\n";
  }
  return text;
}

// Rows of a table (three columns or more, two spaces between them) lose room behind the first
// column, which gets a line of its own where that is not enough. Other lines go on below where
// their last column begins.
std::string fit_text(std::string_view text, std::size_t width) {
  std::vector<std::string_view> lines;
  const bool ends = text.ends_with('\n');
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::string fitted;
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t end = i;
    while (end < lines.size() && is_row(lines[end])) ++end;
    if (end > i + 1) {
      fitted += fit_rows(std::span(lines).subspan(i, end - i), width);
      i = end;
      continue;
    }
    fitted += fit_line(lines[i++], width) + "\n";
  }
  if (!ends && !fitted.empty()) fitted.pop_back();
  return fitted;
}

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
  if (isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
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
