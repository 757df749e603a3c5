// See cell_source.h.
#include "results/cell_source.h"

#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/input_file.h"
#include "results/json.h"

namespace allocmark {
namespace {

// What one source keeps: how to get a line, and the cell that was read last.
template <typename Line>
CellSource source_of(const std::string& path, std::vector<LinePlace> places, Line line) {
  struct State {
    std::vector<LinePlace> places;
    CellResult cell;
  };
  const auto state = std::make_shared<State>(State{.places = std::move(places), .cell = {}});
  return {.count = state->places.size(),
          .whole = [state, path, line](std::size_t index) -> const CellResult& {
            const LinePlace& place = state->places.at(index);
            state->cell =
                cell_result_from_json(line(place), fmt::format("{}:{}", path, place.number));
            return state->cell;
          }};
}

}  // namespace

CellSource cells_of_file(const std::string& path, std::vector<LinePlace> places) {
  const auto file = std::make_shared<InputFile>(path, kResultsInput);
  const auto text = std::make_shared<std::string>();
  return source_of(path, std::move(places), [file, text](const LinePlace& place) {
    text->resize(place.size_bytes);
    file->seek(place.begin_bytes);
    text->resize(file->read(*text));
    return std::string_view(*text);
  });
}

CellSource cells_of_text(const StoredText& text, const std::string& path,
                         std::vector<LinePlace> places) {
  const auto line = std::make_shared<std::string>();
  return source_of(path, std::move(places), [text, line](const LinePlace& place) {
    line->resize(place.size_bytes);
    line->resize(text.read(place.begin_bytes, *line));
    return std::string_view(*line);
  });
}

}  // namespace allocmark
