#include "harness/tools/why/message/pattern.h"

#include <string.h>

#include <algorithm>

#include "base/assert.h"
#include "harness/tools/why/message/plain_text.h"

namespace allocmark::message {
namespace {

constexpr std::size_t kGapMax = 160;

std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('~'), text.size());
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

// Past the pieces, the first of which begins at `at`; npos where they do not follow each other.
std::size_t past(std::string_view text, std::size_t at, const std::vector<std::string>& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view near =
        text.substr(std::min(at, text.size()), (i == 0 ? 0 : kGapMax) + pieces[i].size());
    const std::size_t found = near.find(pieces[i]);
    if (found == std::string_view::npos) return found;
    at += found + pieces[i].size();
  }
  return at;
}

}  // namespace

CompiledPattern::CompiledPattern(std::string_view pattern) {
  const std::string text = plain_text(pattern).text;
  const std::size_t figure = text.find("{}");
  has_figure_ = figure != std::string::npos;
  left_ = pieces_of(std::string_view(text).substr(0, figure));
  if (has_figure_) right_ = pieces_of(std::string_view(text).substr(figure + 2));
  ALLOCMARK_ASSERT(!left_.empty() || !right_.empty());
}

std::optional<PatternMatch> CompiledPattern::match(std::string_view text, std::size_t at,
                                                   const FigureStyle& style) const {
  if (left_.empty()) {
    const std::optional<FoundFigure> found = figure_before(text, at, style);
    const std::size_t end = past(text, at, right_);
    if (!found || end == std::string_view::npos) return std::nullopt;
    return PatternMatch{found->figure, found->begin, end, found->begin};
  }
  const std::size_t figure_at_byte = past(text, at, left_);
  if (figure_at_byte == std::string_view::npos) return std::nullopt;
  if (!has_figure_) return PatternMatch{{}, at, figure_at_byte, figure_at_byte};
  const std::optional<FoundFigure> found = figure_at(text, figure_at_byte, style);
  if (!found) return std::nullopt;
  const std::size_t end = past(text, found->end, right_);
  if (end == std::string_view::npos) return std::nullopt;
  return PatternMatch{found->figure, at, end, found->begin};
}

std::optional<PatternMatch> CompiledPattern::find(std::string_view text, std::size_t from,
                                                  std::size_t to, const FigureStyle& style) const {
  const std::string& first = left_.empty() ? right_.front() : left_.front();
  const std::size_t limit = std::min(to, text.size());
  while (from < limit) {
    // Faster than string_view's find on text of many megabytes.
    const std::size_t size = std::min(text.size(), limit + first.size()) - from;
    const void* const found_at = memmem(text.data() + from, size, first.data(), first.size());
    if (found_at == nullptr) return std::nullopt;
    const auto at = static_cast<std::size_t>(static_cast<const char*>(found_at) - text.data());
    if (at >= limit) return std::nullopt;
    if (std::optional<PatternMatch> found = match(text, at, style)) return found;
    from = at + 1;
  }
  return std::nullopt;
}

}  // namespace allocmark::message
