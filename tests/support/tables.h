// The tables of a few cells as one text, for tests: what the program writes a piece at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "results/tables/writers.h"

namespace allocmark {

// The cells must outlive the source.
inline CellSource cells_in_memory(std::span<const CellResult> cells) {
  return {.count = cells.size(),
          .whole = [cells](std::size_t index) -> const CellResult& { return cells[index]; }};
}

inline std::string render_csv(std::span<const CellResult> cells) {
  std::string text;
  write_csv(cells_in_memory(cells), [&](std::string_view piece) { text += piece; });
  return text;
}

inline std::string render_google_benchmark(const Environment& environment,
                                           std::span<const CellResult> cells) {
  std::string text;
  write_google_benchmark(environment, cells_in_memory(cells),
                         [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace allocmark
