#include "harness/tools/why/message/plain_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

#include "harness/tools/why/message/figure.h"
#include "harness/tools/why/message/log_prefix.h"

namespace allocmark::message {
namespace {

constexpr std::size_t kTagMax = 200;
constexpr std::size_t kEntityMax = 10;
constexpr std::size_t kUnitMax = 8;     // a unit and what stands behind it
constexpr std::size_t kWrapMin = 60;    // shorter lines were not wrapped inside a word,
constexpr std::size_t kNarrowMin = 30;  // but for those of a narrow terminal, all of one length

constexpr std::array<std::pair<std::string_view, char>, 6> kEntities = {{{"&amp;", '&'},
                                                                         {"&lt;", '<'},
                                                                         {"&gt;", '>'},
                                                                         {"&quot;", ' '},
                                                                         {"&apos;", ' '},
                                                                         {"&nbsp;", ' '}}};

// What begins a terminal's escape sequence, as JSON, Python and shells write it.
constexpr std::array<std::string_view, 6> kEscapes = {"u001b[", "u001B[", "x1b[",
                                                      "x1B[",   "033[",   "e["};

// Signs that stand for ones of ASCII: digits of other scripts, and dots for something left out.
struct OtherSign {
  std::string_view first;  // of those in a row, in UTF-8
  int count;
  char ascii;  // of the first
};
constexpr std::array<OtherSign, 5> kOtherSigns = {{{"\xef\xbc\x90", 10, '0'},  // full width
                                                   {"\xef\xbc\x8e", 1, '.'},
                                                   {"\xd9\xa0", 10, '0'},  // Arabic
                                                   {"\xdb\xb0", 10, '0'},  // Persian
                                                   {"\xe2\x80\xa6", 1, '.'}}};
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";

// What escapes name by number: "u0022" and "x22" behind a backslash. Their length; 0 where the text
// does not begin so.
struct NamedSign {
  std::size_t size = 0;
  char ascii = '\0';  // no sign where it is none of ASCII
};
NamedSign named_sign(std::string_view text) {
  const std::size_t digits = text.starts_with('u') ? 4 : text.starts_with('x') ? 2 : 0;
  if (digits == 0 || text.size() < digits + 1) return {};
  unsigned value = 0;
  const char* const begin = text.data() + 1;
  const auto [end, error] = std::from_chars(begin, begin + digits, value, 16);
  if (error != std::errc{} || end != begin + digits) return {};
  return {.size = digits + 1, .ascii = value < 0x80 ? static_cast<char>(value) : '\0'};
}

// "12 tensors": a number and a word that is no unit of memory.
bool counts_things(std::string_view line) {
  const std::size_t end = line.find_first_not_of("0123456789.,");
  if (end == 0 || end == std::string_view::npos || line[end] != ' ') return false;
  std::string plain(line.substr(0, end));
  for (const char c : line.substr(end + 1, kUnitMax)) plain += lower(c);
  return !figure_at(plain, 0, {}).has_value();
}

class Plainer {
 public:
  Plainer(std::string_view source, std::size_t mark_bytes)
      : source_(source), mark_bytes_(mark_bytes) {}

  PlainText run() {
    plain_.text.reserve(source_.size());
    begin_line();
    while (at_ < source_.size()) {
      if (at_ >= mark_bytes_ && !marked_) set_mark();
      step();
    }
    if (!marked_) set_mark();
    return std::move(plain_);
  }

 private:
  void set_mark() {
    plain_.mark = plain_.text.size();
    marked_ = true;
  }

  // As much of a line as may be a prefix.
  [[nodiscard]] std::string_view line_from(std::size_t begin) const {
    const std::string_view line = source_.substr(std::min(begin, source_.size()), 4 * kTagMax);
    return line.substr(0, line.find('\n'));
  }

  void begin_line() {
    plain_.line_begins.push_back(plain_.text.size());
    const std::string_view before = line_from(line_begin_);
    line_begin_ = at_;
    const std::size_t end = std::min(source_.find('\n', at_), source_.size());
    const std::size_t prefix =
        log_prefix(line_from(at_), at_ == 0 ? std::string_view() : before, line_from(end + 1)).size;
    text_end_ = at_ + end_of_text(source_.substr(at_, end - at_), prefix);
    has_prefix_ = source_.substr(at_, prefix).find_first_not_of(" \t>") != std::string_view::npos;
    at_ += prefix;
    // A figure that was wrapped inside goes on; what is a figure of its own does not.
    const bool is_even = line_length_ == length_before_ || line_length_ == end - line_begin_;
    const bool wraps = line_length_ >= (is_even ? kNarrowMin : kWrapMin) && !has_prefix_ &&
                       !blank_end_ && (is_even || !counts_things(line_from(at_)));
    gap_ = !wraps;
  }

  void end_line() {
    length_before_ = line_length_;
    line_length_ = at_ - line_begin_;
    blank_end_ = gap_;
    ++at_;
    begin_line();
  }

  void step() {
    const char c = source_[at_];
    if (c == '\n') return end_line();
    if (at_ >= text_end_) {
      ++at_;
      return;
    }
    if (c == '\x1b') return skip_escape();
    if (c < '\0' && take_other_sign()) return;
    if (const std::size_t end = colour(source_.substr(at_)); end > 0) {
      at_ += end;
      return;
    }
    if (c == '<' && skip_tag()) return;
    if (c == '&' && take_entity()) return;
    if (c == '\\') return skip_backslash();
    take(c);
    ++at_;
  }

  void take(char c) {
    // A NUL stands between the letters of UTF-16.
    if (c == '\0' || c == '*' || c == '`' || c == '"' || c == '\'') return;
    if (c <= ' ' || c >= '\x7f') {
      gap_ = gap_ || c == ' ' || c == '\t';
      return;
    }
    std::string& text = plain_.text;
    if (gap_ && !text.empty() && digit(text.back()) && digit(c)) text += ' ';
    gap_ = false;
    text += lower(c);
  }

  bool take_other_sign() {
    const std::string_view rest = source_.substr(at_);
    for (const OtherSign& sign : kOtherSigns) {
      const std::size_t size = sign.first.size();
      if (rest.substr(0, size - 1) != sign.first.substr(0, size - 1) || rest.size() < size)
        continue;
      const int place = static_cast<unsigned char>(rest[size - 1]) -
                        static_cast<unsigned char>(sign.first[size - 1]);
      if (place < 0 || place >= sign.count) continue;
      take(static_cast<char>(sign.ascii + place));
      if (sign.first == kEllipsis) take('.');
      at_ += size;
      return true;
    }
    return false;
  }

  void skip_escape() {
    ++at_;
    skip_title();
    skip_sequence();
  }

  // "]0;title" and "]8;;link" behind an escape, to their end.
  void skip_title() {
    constexpr std::size_t kTitleMax = 2048;
    if (at_ >= source_.size() || source_[at_] != ']') return;
    const std::string_view rest = source_.substr(at_, kTitleMax);
    const std::size_t end = rest.find_first_of("\x07\x1b\n");
    if (end == std::string_view::npos || rest[end] == '\n') return;
    at_ += end + 1;
    if (rest[end] == '\x1b' && at_ < source_.size() && source_[at_] == '\\') ++at_;
  }

  // "[1;31m" of an escape sequence
  void skip_sequence() {
    if (at_ >= source_.size() || source_[at_] != '[') return;
    const std::size_t limit = std::min(source_.size(), at_ + 32);
    while (at_ < limit && (std::isalpha(static_cast<unsigned char>(source_[at_])) == 0)) ++at_;
    if (at_ < limit) ++at_;
  }

  bool skip_tag() {
    const std::string_view rest = source_.substr(at_, kTagMax);
    if (rest.size() < 3) return false;
    const bool named = std::isalpha(static_cast<unsigned char>(rest[1])) != 0 || rest[1] == '/';
    const std::size_t end = rest.find_first_of(">\n");
    // "<Signals.SIGKILL: 9>" of Python
    const std::size_t dot = rest.find_first_of(". >\n", 1);
    if (dot != std::string_view::npos && rest[dot] == '.') return false;
    if (!named || end == std::string_view::npos || rest[end] != '>') return false;
    gap_ = true;
    at_ += end + 1;
    return true;
  }

  bool take_entity() {
    for (const auto& [name, letter] : kEntities) {
      if (!source_.substr(at_).starts_with(name)) continue;
      take(letter);
      at_ += name.size();
      return true;
    }
    return take_numbered_entity();
  }

  // "&#39;" and "&#x27;"; what is none of ASCII is a blank, as "&#160;" is.
  bool take_numbered_entity() {
    std::string_view rest = source_.substr(at_, kEntityMax);
    const std::size_t end = rest.find(';');
    if (!rest.starts_with("&#") || end == std::string_view::npos) return false;
    const bool is_hex = end > 2 && lower(rest[2]) == 'x';
    const std::string_view digits = rest.substr(is_hex ? 3 : 2, end - (is_hex ? 3 : 2));
    unsigned value = 0;
    const char* const last = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), last, value, is_hex ? 16 : 10);
    if (digits.empty() || error != std::errc{} || stop != last) return false;
    const bool is_quote = value == '"' || value == '\'';
    take(value < 0x80 && !is_quote ? static_cast<char>(value) : ' ');
    at_ += end + 1;
    return true;
  }

  // "\n" of a text inside JSON or of Python's repr
  void skip_backslash() {
    ++at_;
    if (at_ >= source_.size()) return;
    for (const std::string_view escape : kEscapes) {
      if (!source_.substr(at_).starts_with(escape)) continue;
      at_ += escape.size() - 1;
      return skip_sequence();
    }
    if (const NamedSign sign = named_sign(source_.substr(at_)); sign.size > 0) {
      take(sign.ascii);
      gap_ = gap_ || (sign.ascii != '\0' && sign.ascii <= ' ');
      at_ += sign.size;
      return;
    }
    const char c = source_[at_];
    if (c != 'n' && c != 'r' && c != 't') return;
    gap_ = true;
    ++at_;
  }

  std::string_view source_;
  std::size_t mark_bytes_;
  std::size_t at_ = 0;
  std::size_t text_end_ = 0;  // of this line: what follows is its log's
  std::size_t line_begin_ = 0;
  std::size_t line_length_ = 0;    // of the line before
  std::size_t length_before_ = 0;  // and of the one before that
  bool marked_ = false;
  bool gap_ = false;  // a blank came since the last character
  bool blank_end_ = false;
  bool has_prefix_ = false;
  PlainText plain_;
};

}  // namespace

std::size_t PlainText::line_index(std::size_t at) const {
  const auto after = std::ranges::upper_bound(line_begins, at);
  return after == line_begins.begin() ? 0
                                      : static_cast<std::size_t>(after - line_begins.begin()) - 1;
}

PlainText plain_text(std::string_view source, std::size_t mark_bytes) {
  return Plainer(source, mark_bytes).run();
}

}  // namespace allocmark::message
