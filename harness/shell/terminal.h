// How wide what a person reads may be. The environment and the stream flow in; columns flow out.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string_view>

namespace allocmark {

// Where neither COLUMNS nor a terminal says otherwise, as in a pipe or a file.
inline constexpr std::size_t kPipeWidth = 100;

// The number that COLUMNS holds, else the width of the terminal that the stream is, else
// kPipeWidth. What is piped does not depend on the terminal that it was started from.
[[nodiscard]] std::size_t output_width(std::FILE* stream);

// 0 where nobody says how wide the stream is: it is a pipe or a file, and COLUMNS is not set.
[[nodiscard]] std::size_t known_width(std::FILE* stream);

// Lines of text for people, none wider than the stream. What a program reads through a
// pipe keeps its lines.
void print_fitted(std::FILE* stream, std::string_view text);

// The text and a newline, wrapped at the stream's width.
void print_wrapped(std::FILE* stream, std::string_view text);

// --quiet: what is written to stderr goes nowhere until the destructor, but for errors, which are
// told after it, and what print_warning says. One at a time.
class QuietStderr {
 public:
  explicit QuietStderr(bool quiet);
  ~QuietStderr();
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;
};

// What changes the meaning of the answer and stands nowhere in it: --quiet does not hide it. To
// stderr, with a newline, wrapped.
void print_warning(std::string_view text);

}  // namespace allocmark
