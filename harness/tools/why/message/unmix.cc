// See unmix.h.
#include "harness/tools/why/message/unmix.h"

#include <algorithm>
#include <utility>

#include "harness/tools/why/message/log_prefix.h"

namespace allocmark::message {
namespace {

constexpr std::size_t kBlockLinesMax = 512;  // what is written at once is not further apart
constexpr std::size_t kPrefixMax = 800;

using Speaker = std::pair<std::string_view, std::string_view>;

struct Line {
  std::size_t index = 0;
  std::string_view text;
  Speaker speaker;
};

std::vector<Line> lines_of(std::string_view source) {
  std::vector<Line> lines;
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size());
    lines.push_back({.index = lines.size(), .text = source.substr(0, end), .speaker = {}});
    source.remove_prefix(std::min(end + 1, source.size()));
  }
  const auto head = [&lines](std::size_t i) {
    return i < lines.size() ? lines[i].text.substr(0, kPrefixMax) : std::string_view();
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const LogPrefix prefix =
        log_prefix(head(i), i == 0 ? std::string_view() : head(i - 1), head(i + 1));
    lines[i].speaker = {prefix.label, prefix.bracket};
  }
  return lines;
}

// By who spoke first. True where a line moved.
bool sort_block(std::vector<Line>* lines, std::size_t begin, std::size_t end) {
  std::vector<Speaker> speakers;
  const auto rank = [&speakers](const Line& line) {
    return std::ranges::find(speakers, line.speaker) - speakers.begin();
  };
  const auto first = lines->begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = lines->begin() + static_cast<std::ptrdiff_t>(end);
  for (auto line = first; line != last; ++line)
    if (static_cast<std::size_t>(rank(*line)) == speakers.size()) speakers.push_back(line->speaker);
  if (std::ranges::is_sorted(first, last, {}, rank)) return false;
  std::ranges::stable_sort(first, last, {}, rank);
  return true;
}

}  // namespace

std::optional<Unmixed> unmixed(std::string_view source, std::size_t mark_bytes) {
  std::vector<Line> lines = lines_of(source);
  bool has_moved = false;
  for (std::size_t begin = 0; begin < lines.size();) {
    const auto is_behind = [&](std::size_t i) {
      return static_cast<std::size_t>(lines[i].text.data() - source.data()) >= mark_bytes;
    };
    std::size_t end = begin;
    while (end < lines.size() && end < begin + kBlockLinesMax && lines[end].speaker != Speaker() &&
           is_behind(end) == is_behind(begin))
      ++end;
    has_moved |= sort_block(&lines, begin, end);
    begin = std::max(end, begin + 1);
  }
  if (!has_moved) return std::nullopt;
  Unmixed found;
  found.text.reserve(source.size() + 1);
  for (const Line& line : lines) {
    found.text.append(line.text).append("\n");
    found.lines.push_back(line.index);
  }
  return found;
}

}  // namespace allocmark::message
