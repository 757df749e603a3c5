// See log_prefix.h.
#include "harness/tools/why/message/log_prefix.h"

#include <algorithm>
#include <array>
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

// Past "worker-1  |" of docker compose, whose first version wrote "worker_1  |".
std::size_t service(std::string_view line) {
  const std::size_t end = std::min(line.find_first_of(" \t|"), line.size());
  const std::size_t bar = line.find_first_not_of(" \t", end);
  if (end == 0 || bar == std::string_view::npos || line[bar] != '|') return 0;
  const std::string_view name = line.substr(0, end);
  const bool is_name = name.find('-') != std::string_view::npos ||
                       (digit(name.back()) && name.find('_') != std::string_view::npos);
  return is_name ? bar + 1 : 0;
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

LogPrefix log_prefix(std::string_view line, std::string_view before, std::string_view behind) {
  const std::size_t label =
      std::max({service(line), shared_mark(line, before), shared_mark(line, behind), task(line)});
  LogPrefix prefix{.size = std::max(label, system_log(line)), .label = line.substr(0, label)};
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
    if (!is_time(word) && !is_glog(word) && !is_level(word, at == 0) && !is_source_place(word) &&
        !(at > 0 && word == "-"))
      break;
    at += word.size();
  }
  return prefix;
}

}  // namespace allocmark::message
