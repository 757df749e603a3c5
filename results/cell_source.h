// The cells of a run, whole, one at a time: read from the run's file when they are asked for, so
// that a run of any size can be written as tables. Flows in: a file and where its lines lie; flows
// out: cells by index.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/stored_text.h"
#include "results/run_file.h"
#include "results/schema.h"

namespace allocmark {

struct CellSource {
  std::size_t count = 0;
  // Valid until the next call. Throws as read_run_file does where the file changed meanwhile.
  std::function<const CellResult&(std::size_t index)> whole;
};

// `places` as read_run_file gives them, in any order.
[[nodiscard]] CellSource cells_of_file(const std::string& path, std::vector<LinePlace> places);
// The same of a file's text; `path` is what messages call it.
[[nodiscard]] CellSource cells_of_text(const StoredText& text, const std::string& path,
                                       std::vector<LinePlace> places);

}  // namespace allocmark
