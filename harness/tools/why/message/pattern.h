// A pattern of forms.h, made ready to be looked for in plain text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/tools/why/message/figure.h"

namespace allocmark::message {

struct PatternMatch {
  std::optional<Figure> figure{};  // none where the pattern has no `{}`
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t figure_begin = 0;
};

class CompiledPattern {
 public:
  explicit CompiledPattern(std::string_view pattern);

  // The first match that begins in [from, to) of the text.
  [[nodiscard]] std::optional<PatternMatch> find(std::string_view text, std::size_t from,
                                                 std::size_t to, const FigureStyle& style) const;

 private:
  [[nodiscard]] std::optional<PatternMatch> match(std::string_view text, std::size_t at,
                                                  const FigureStyle& style) const;

  std::vector<std::string> left_;  // what stands before the figure, with gaps between
  std::vector<std::string> right_;
  bool has_figure_ = false;
};

}  // namespace allocmark::message
