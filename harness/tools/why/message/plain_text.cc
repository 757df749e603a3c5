#include "harness/tools/why/message/plain_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace allocmark::message {
namespace {

constexpr std::size_t kTagMax = 200;
constexpr std::size_t kBracketMax = 100;
constexpr std::size_t kWrapMin = 60;    // shorter lines were not wrapped inside a word,
constexpr std::size_t kNarrowMin = 30;  // but for those of a narrow terminal, all of one length

constexpr std::array<std::pair<std::string_view, char>, 9> kEntities = {{{"&amp;", '&'},
                                                                         {"&lt;", '<'},
                                                                         {"&gt;", '>'},
                                                                         {"&quot;", ' '},
                                                                         {"&apos;", ' '},
                                                                         {"&#39;", ' '},
                                                                         {"&#x27;", ' '},
                                                                         {"&nbsp;", ' '},
                                                                         {"&#160;", ' '}}};

// What begins a terminal's escape sequence, as JSON, Python and shells write it.
constexpr std::array<std::string_view, 6> kEscapes = {"u001b[", "u001B[", "x1b[",
                                                      "x1B[",   "033[",   "e["};

constexpr std::array<std::string_view, 10> kLevels = {
    "error", "info", "warning", "warn", "critical", "debug", "fatal", "trace", "stderr", "stdout"};
// Behind a time alone: a word may be wrapped so that one letter begins a line.
constexpr std::string_view kShortLevels = "EIWFD";

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool digit(char c) { return c >= '0' && c <= '9'; }

bool word_is_digits(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, digit);
}

// "12:56:42.782026:", "2022-02-11", "02-10"
bool is_time(std::string_view word) {
  if (word.size() < 5 || !digit(word.front())) return false;
  if (word.find_first_not_of("0123456789:-./,TZ+") != std::string_view::npos) return false;
  return word.find_first_of(":-/") != std::string_view::npos;
}

// "W1231" of glog
bool is_glog(std::string_view word) {
  return word.size() == 5 && std::string_view("IWEF").find(word[0]) != std::string_view::npos &&
         std::ranges::all_of(word.substr(1), digit);
}

bool is_level(std::string_view word, bool is_first) {
  if (!is_first && word.size() == 1) return kShortLevels.find(word) != std::string_view::npos;
  while (!word.empty() && word.back() == ':') word.remove_suffix(1);
  std::string text(word);
  std::ranges::transform(text, text.begin(), lower);
  return std::ranges::find(kLevels, text) != kLevels.end();
}

// "core/bfc_allocator.cc:1066]"
bool is_source_place(std::string_view word) {
  return word.ends_with(']') && word.find(':') != std::string_view::npos &&
         word.find('.') != std::string_view::npos && word.find('[') == std::string_view::npos;
}

// Past "[31m", which a page leaves of a terminal's colour; 0 where the text does not begin so.
std::size_t colour(std::string_view text) {
  constexpr std::size_t kColourMax = 20;
  if (!text.starts_with('[')) return 0;
  const std::size_t end = text.substr(0, kColourMax).find_first_not_of("0123456789;", 1);
  return end != std::string_view::npos && end > 1 && text[end] == 'm' ? end + 1 : 0;
}

// Past "[rank3]:" or "(EngineCore_DP0 pid=39535)"; 0 where the line does not begin so.
std::size_t bracketed(std::string_view line) {
  if (line.empty() || (line[0] != '[' && line[0] != '(')) return 0;
  const std::size_t end = line.substr(0, kBracketMax).find(line[0] == '[' ? ']' : ')');
  if (end == std::string_view::npos) return 0;
  const std::string_view inside = line.substr(1, end - 1);
  if (inside.find_first_of("'\"|;") != std::string_view::npos) return 0;
  if (line[0] == '(' && inside.find("pid") == std::string_view::npos &&
      inside.find("rank") == std::string_view::npos)
    return 0;
  return end + 1 < line.size() && line[end + 1] == ':' ? end + 2 : end + 1;
}

// Past "worker-1  |" of docker compose.
std::size_t service(std::string_view line) {
  const std::size_t end = std::min(line.find_first_of(" \t|"), line.size());
  const std::size_t bar = line.find_first_not_of(" \t", end);
  if (end == 0 || bar == std::string_view::npos || line[bar] != '|') return 0;
  return line.substr(0, end).find('-') == std::string_view::npos ? 0 : bar + 1;
}

// Past "Mar 01 12:00:01 node-7 python3[1234]:" of the system's log.
std::size_t system_log(std::string_view line) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (std::ranges::find(kMonths, line.substr(0, 3)) == kMonths.end()) return 0;
  std::array<std::string_view, 5> words;  // month, day, time, host, program
  std::size_t end = 0;
  for (std::string_view& word : words) {
    const std::size_t begin = line.find_first_not_of(' ', end);
    if (begin == std::string_view::npos) return 0;
    end = std::min(line.find(' ', begin), line.size());
    word = line.substr(begin, end - begin);
  }
  const bool is_day = word_is_digits(words[1]) && words[1].size() <= 2;
  return is_day && is_time(words[2]) && words[4].ends_with(':') ? end : 0;
}

// "12:", which srun -l puts before the lines of task 12.
bool is_task(std::string_view word) {
  return word.size() >= 2 && word.size() <= 5 && word.ends_with(':') &&
         word_is_digits(word.substr(0, word.size() - 1));
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

  void begin_line() {
    plain_.line_begins.push_back(plain_.text.size());
    line_begin_ = at_;
    const std::size_t end = std::min(source_.find('\n', at_), source_.size());
    const std::size_t prefix = log_prefix(source_.substr(at_, std::min(end - at_, 4 * kTagMax)));
    has_prefix_ = source_.substr(at_, prefix).find_first_not_of(" \t>") != std::string_view::npos;
    at_ += prefix;
    // A figure that was wrapped inside goes on; what is a figure of its own does not.
    const bool is_narrow = line_length_ >= kNarrowMin &&
                           (line_length_ == length_before_ || line_length_ == end - line_begin_);
    const bool wraps = (line_length_ >= kWrapMin || is_narrow) && !has_prefix_ && !blank_end_;
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
    if (c == '\x1b') return skip_escape();
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

  void skip_escape() {
    ++at_;
    skip_sequence();
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
    return false;
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
    const char c = source_[at_];
    if (c != 'n' && c != 'r' && c != 't') return;
    gap_ = true;
    ++at_;
  }

  std::string_view source_;
  std::size_t mark_bytes_;
  std::size_t at_ = 0;
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

std::size_t log_prefix(std::string_view line) {
  std::size_t at = std::max(service(line), system_log(line));
  while (at < line.size()) {
    const std::string_view rest = line.substr(at);
    if (rest[0] == '|') return at + 1;  // of a table: what follows is its own
    if (std::string_view(" \t>#").find(rest[0]) != std::string_view::npos) {
      ++at;
      continue;
    }
    const std::size_t escape = rest[0] == '\x1b' ? 1 : 0;
    if (const std::size_t end = colour(rest.substr(escape)); end > 0) {
      at += escape + end;
      continue;
    }
    if (rest.starts_with("//")) {
      at += 2;
      continue;
    }
    if (rest.starts_with("<stderr>:") || rest.starts_with("<stdout>:")) {
      at += 9;
      continue;
    }
    if (const std::size_t end = bracketed(rest); end > 0) {
      at += end;
      continue;
    }
    const std::string_view word =
        rest.substr(0, std::min(rest.find_first_of(" \t\r"), rest.size()));
    const bool is_label = at == 0 && is_task(word);
    if (!is_label && !is_time(word) && !is_glog(word) && !is_level(word, at == 0) &&
        !is_source_place(word))
      return at;
    at += word.size();
  }
  return at;
}

}  // namespace allocmark::message
