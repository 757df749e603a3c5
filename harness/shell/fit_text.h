// Text for people made to fit a width. Lines flow in as they were written; lines of at most so many
// columns flow out. What is to be pasted, and words that are longer by themselves, stay whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace allocmark {

// Rows of a table (three columns or more, two spaces between them) lose room behind the first
// column, which gets a line of its own where that is not enough. Other lines go on below where
// their last column begins.
[[nodiscard]] std::string fit_text(std::string_view text, std::size_t width);

}  // namespace allocmark
