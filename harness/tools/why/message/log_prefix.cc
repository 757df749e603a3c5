// See log_prefix.h.
#include "harness/tools/why/message/log_prefix.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>

namespace allocmark::message {
namespace {

constexpr std::size_t kBracketMax = 100;
constexpr std::size_t kHostMax = 64;
// Marks of diffs and quotes. Dashes also begin items of a list, and figures below zero.
constexpr std::string_view kParagraphMarks = "+-!;:%~=";
constexpr std::array<std::string_view, 3> kFixedMarks = {"//", "<stderr>:", "<stdout>:"};
constexpr std::array<std::string_view, 10> kLevels = {
    "error", "info", "warning", "warn", "critical", "debug", "fatal", "trace", "stderr", "stdout"};
// Behind a time alone: a word may be wrapped so that one letter begins a line.
constexpr std::string_view kShortLevels = "EIWFDP";

bool word_is_digits(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, digit);
}

// "12:56:42.782026:", "2022-02-11", "02-10"
bool is_time(std::string_view word) {
  if (word.size() < 5 || !digit(word.front())) return false;
  if (word.find_first_not_of("0123456789:-./,TZ+") != std::string_view::npos) return false;
  return word.find_first_of(":-/") != std::string_view::npos;
}

// "core/bfc_allocator.cc:1066]"
bool is_source_place(std::string_view word) {
  return word.ends_with(']') && word.find(':') != std::string_view::npos &&
         word.find('.') != std::string_view::npos && word.find('[') == std::string_view::npos;
}

// The number of a thread, between glog's time and the place in the source.
bool is_thread(std::string_view rest, std::string_view word) {
  if (!word_is_digits(word)) return false;
  rest.remove_prefix(word.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return is_source_place(rest.substr(0, rest.find(' ')));
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

// Of GitLab's jobs, "01E" and "00O+".
bool is_stream(std::string_view word) {
  if (word.ends_with('+')) word.remove_suffix(1);
  return word.size() == 3 && digit(word[0]) && digit(word[1]) && (word[2] == 'E' || word[2] == 'O');
}

// "algo-1-x7k", "workerpool0-0", "algo-1/1764": who wrote the line, behind its time.
bool is_writer(std::string_view word) {
  const bool plain = std::ranges::all_of(word, [](char c) {
    return digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') ||
           std::string_view("-_/.").find(c) != std::string_view::npos;
  });
  return plain && word.size() > 3 && word.find_first_of("-/") != std::string_view::npos &&
         std::ranges::any_of(word, digit) && lower(word[0]) >= 'a' && lower(word[0]) <= 'z';
}

// Past "[rank3]:", "(EngineCore_DP0 pid=39535)" or Airflow's "{subprocess.py:93}"; 0 where the line
// does not begin so.
std::size_t bracketed(std::string_view line) {
  static constexpr std::string_view kOpen = "[({";
  static constexpr std::string_view kClose = "])}";
  const std::size_t kind = line.empty() ? kOpen.npos : kOpen.find(line[0]);
  if (kind == kOpen.npos) return 0;
  const std::size_t end = line.substr(0, kBracketMax).find(kClose[kind]);
  if (end == std::string_view::npos) return 0;
  const std::string_view inside = line.substr(1, end - 1);
  if (inside.find_first_of("'\"|;") != std::string_view::npos) return 0;
  if (line[0] == '{' && inside.find(".py:") == std::string_view::npos) return 0;
  if (line[0] == '(' && inside.find("pid") == std::string_view::npos &&
      inside.find("rank") == std::string_view::npos)
    return 0;
  return end + 1 < line.size() && line[end + 1] == ':' ? end + 2 : end + 1;
}

// Past "worker-1  |" of docker compose, whose first version wrote "worker_1  |", and past stern's
// "worker-1 \u203a pytorch |".
std::size_t service(std::string_view line) {
  const std::size_t end = std::min(line.find_first_of(" \t|"), line.size());
  std::size_t bar = line.find_first_not_of(" \t", end);
  constexpr std::string_view kOf = "\xe2\x80\xba ";
  if (bar != std::string_view::npos && line.substr(bar).starts_with(kOf))
    bar = line.find_first_not_of(' ', std::min(line.find(' ', bar + kOf.size()), line.size()));
  if (end == 0 || bar == std::string_view::npos || line[bar] != '|') return 0;
  const std::string_view name = line.substr(0, end);
  const bool is_name = name.find('-') != std::string_view::npos ||
                       (digit(name.back()) && name.find('_') != std::string_view::npos);
  return is_name ? bar + 1 : 0;
}

// Past "<11>1 2026-02-11T12:56:42Z node-7 python3 1234 - -", as syslog sends it; what RFC 5424
// calls its parts has no blanks.
std::size_t sent_log(std::string_view line) {
  if (!line.starts_with('<')) return 0;
  const std::size_t close = line.find_first_not_of("0123456789", 1);
  if (close == 1 || close == std::string_view::npos || close > 4 || line[close] != '>') return 0;
  if (!line.substr(close + 1).starts_with("1 ")) return close + 1;
  constexpr int kParts = 7;  // version, time, host, program, process, message's name, data
  std::size_t end = close + 1;
  for (int part = 0; part < kParts && end < line.size(); ++part)
    end = std::min(line.find(' ', end + 1), line.size());
  return end;
}

// Past "Mar 01 12:00:01 node-7 python3[1234]:" of the system's log, whose time may be one word.
std::size_t system_log(std::string_view line) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::array<std::string_view, 5> words;  // month, day, time, host, program
  std::size_t end = 0;
  std::size_t count = 0;
  while (count < words.size()) {
    const std::size_t begin = line.find_first_not_of(' ', end);
    if (begin == std::string_view::npos) return 0;
    end = std::min(line.find(' ', begin), line.size());
    words[count++] = line.substr(begin, end - begin);
    if (count == 3 && is_time(words[0]) && words[2].front() != '[' && words[2].ends_with("]:"))
      return end;
  }
  const bool is_month = std::ranges::find(kMonths, words[0]) != kMonths.end();
  const bool is_day = word_is_digits(words[1]) && words[1].size() <= 2;
  return is_month && is_day && is_time(words[2]) && words[4].ends_with(':') ? end : 0;
}

// Past "12:", which srun -l puts before the lines of task 12; 0 where the line does not begin so.
std::size_t task(std::string_view line) {
  constexpr std::size_t kTaskDigitsMax = 4;
  const std::size_t end = std::min(line.find_first_not_of("0123456789"), line.size());
  const bool is_task = end > 0 && end <= kTaskDigitsMax && end < line.size() && line[end] == ':' &&
                       (end + 1 == line.size() || line[end + 1] <= ' ');
  return is_task ? end + 1 : 0;
}

// "train.log:101:" of grep -n, "101\t" of cat -n, the number of which is returned; 0 where the line
// does not begin so.
struct Numbered {
  std::string_view name;
  std::uint64_t number = 0;
  std::size_t size = 0;
};
Numbered numbered(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t end = line.substr(0, kHostMax).find_first_of(" \t", begin);
  const std::string_view word = line.substr(begin, end == line.npos ? end : end + 1 - begin);
  std::size_t at = 0;
  for (std::size_t next = 0; next < word.size();) {
    const std::size_t stop = word.find_first_not_of("0123456789", next);
    if (stop == word.npos) break;
    if (stop > next && std::string_view(":-\t").find(word[stop]) != word.npos) {
      std::uint64_t number = 0;
      std::from_chars(word.data() + next, word.data() + stop, number);
      return {.name = word.substr(0, next), .number = number, .size = begin + stop + 1};
    }
    at = word.find_first_of(":-", next);
    if (at == word.npos) break;
    next = at + 1;
  }
  return {};
}

// Lines are numbered where the one before or behind has the number next to this one's.
std::size_t line_number(std::string_view line, std::string_view before, std::string_view behind) {
  const Numbered own = numbered(line);
  if (own.size == 0) return 0;
  const Numbered last = numbered(before);
  const Numbered next = numbered(behind);
  const bool follows = last.size > 0 && last.name == own.name && last.number + 1 == own.number;
  const bool leads = next.size > 0 && next.name == own.name && own.number + 1 == next.number;
  return follows || leads ? own.size : 0;
}

// Whether the bracket is of one process among several: "[rank3]:", "[1,3]" before "<stderr>:",
// "(pid=7)", "[pod/trainer-0/pytorch]".
bool is_speaker(std::string_view bracket, std::string_view behind) {
  if (bracket[0] == '(' || bracket.starts_with("[pod/") || bracket.starts_with("[rank") ||
      bracket.starts_with("[Rank") || bracket.starts_with("[RANK"))
    return true;
  if (!bracket.ends_with("]:") && !behind.starts_with("<std")) return false;
  const std::string_view inside = bracket.substr(1, bracket.find(']') - 1);
  return !inside.empty() && digit(inside.back()) &&
         inside.find_first_of(" :./") == std::string_view::npos;
}

// "worker-12:" of pdsh and DeepSpeed.
std::string_view host(std::string_view line) {
  const std::string_view word = line.substr(0, std::min(line.find(' '), line.size()));
  const bool is_host = word.size() <= kHostMax && word.ends_with(':') &&
                       std::ranges::any_of(word, digit) &&
                       word.find_first_of("/\"'([{<") == std::string_view::npos;
  return is_host ? word : std::string_view();
}

// Both, but for their numbers.
bool have_one_shape(std::string_view left, std::string_view right) {
  const auto next = [](std::string_view* word) {
    const char first = word->front();
    word->remove_prefix(1);
    while (digit(first) && !word->empty() && digit(word->front())) word->remove_prefix(1);
    return digit(first) ? '0' : first;
  };
  while (!left.empty() && !right.empty())
    if (next(&left) != next(&right)) return false;
  return left.empty() && right.empty();
}

// Past what this line and the one before or behind it begin with, and text does not.
std::size_t shared_mark(std::string_view line, std::string_view near) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t>"), line.size());
  near.remove_prefix(std::min(near.find_first_not_of(" \t>"), near.size()));
  line.remove_prefix(begin);
  if (line.empty() || near.empty()) return 0;
  if (line[0] == near[0] && kParagraphMarks.find(line[0]) != std::string_view::npos)
    return begin + 1;
  const std::string_view name = host(line);
  return !name.empty() && have_one_shape(name, host(near)) ? begin + name.size() : 0;
}

}  // namespace

std::size_t colour(std::string_view text) {
  constexpr std::size_t kColourMax = 20;
  if (!text.starts_with('[')) return 0;
  const std::size_t end = text.substr(0, kColourMax).find_first_not_of("0123456789;", 1);
  return end != std::string_view::npos && end > 1 && text[end] == 'm' ? end + 1 : 0;
}

constexpr std::string_view kPacked = "{\"log\":\"";

std::size_t end_of_text(std::string_view line, std::size_t prefix) {
  if (line.starts_with(kPacked)) return std::min(line.rfind("\",\"stream\":"), line.size());
  const std::size_t last = line.find_last_not_of(" \t\r");
  // Rows of a table have more bars.
  const bool is_boxed = prefix > 0 && line[prefix - 1] == '|' && line.find('|', prefix) == last;
  return is_boxed ? std::min(last, line.size()) : line.size();
}

LogPrefix log_prefix(std::string_view line, std::string_view before, std::string_view behind) {
  if (line.starts_with(kPacked)) return {.size = kPacked.size()};
  const std::size_t sent = sent_log(line);
  const std::size_t label =
      std::max({service(line), shared_mark(line, before), shared_mark(line, behind), task(line)});
  const std::size_t fixed_size =
      std::max({sent + system_log(line.substr(sent)), label, line_number(line, before, behind)});
  LogPrefix prefix{.size = fixed_size, .label = line.substr(0, label)};
  std::size_t& at = prefix.size;
  while (at < line.size()) {
    const std::string_view rest = line.substr(at);
    if (rest[0] == '|') {  // of a table: what follows is its own
      ++at;
      return prefix;
    }
    if (std::string_view(" \t>#").find(rest[0]) != std::string_view::npos) {
      ++at;
      continue;
    }
    if (rest[0] == ':' && at > 0 && line[at - 1] == 'm') {  // behind a bracket's colour
      ++at;
      continue;
    }
    const std::size_t escape = rest[0] == '\x1b' ? 1 : 0;
    if (const std::size_t end = colour(rest.substr(escape)); end > 0) {
      at += escape + end;
      continue;
    }
    if (const std::size_t end = bracketed(rest); end > 0) {
      if (is_speaker(rest.substr(0, end), rest.substr(end))) prefix.bracket = rest.substr(0, end);
      at += end;
      continue;
    }
    const auto fixed = std::ranges::find_if(
        kFixedMarks, [rest](std::string_view mark) { return rest.starts_with(mark); });
    if (fixed != kFixedMarks.end()) {
      at += fixed->size();
      continue;
    }
    const std::string_view word =
        rest.substr(0, std::min(rest.find_first_of(" \t\r"), rest.size()));
    const bool is_known = is_time(word) || is_glog(word) || is_level(word, at == 0) ||
                          is_source_place(word) || is_thread(rest, word);
    if (!is_known && !(at > 0 && (word == "-" || is_stream(word) || is_writer(word)))) break;
    at += word.size();
  }
  return prefix;
}

}  // namespace allocmark::message
