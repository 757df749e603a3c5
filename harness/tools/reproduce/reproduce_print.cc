// A reproduction as text and as JSON.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "harness/core/run/progress.h"
#include "harness/tools/reproduce/reproduce.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kVerdicts{"agrees", "DIFFERS", "not run"};
constexpr std::size_t kNumbersShownMax = 20;

template <typename Rows, typename Of>
std::uint64_t count_of(const Rows& rows, Of of) {
  return static_cast<std::uint64_t>(std::ranges::count_if(rows, of));
}

std::string exact_line(const CellAgain& cell) {
  const std::uint64_t agree_count = count_of(cell.exact, &ExactAgain::agrees);
  if (agree_count == cell.exact.size()) {
    return fmt::format("{} exact numbers agree", agree_count);
  }
  return fmt::format("{} of {} exact numbers differ", cell.exact.size() - agree_count,
                     cell.exact.size());
}

void append_cell(std::string& out, const CellAgain& cell) {
  out += fmt::format("{:<8} {}\n", to_string(cell.verdict), printable(cell_label(cell.key)));
  if (cell.verdict == CellVerdict::NotRun) {
    out += fmt::format("         {}\n", printable(cell.reason));
    return;
  }
  out += "         " + exact_line(cell);
  if (!cell.timed.empty()) {
    out += fmt::format("; {} of {} timed ones lie in their interval",
                       count_of(cell.timed, &TimedNumberAgain::inside), cell.timed.size());
  }
  out += "\n";
  std::size_t shown = 0;
  for (const ExactAgain& number : cell.exact) {
    if (number.agrees || ++shown > kNumbersShownMax) continue;
    out += fmt::format("         {}: published {}, here {}\n", printable(number.name),
                       printable(number.stored), printable(number.again));
  }
  if (shown > kNumbersShownMax)
    out += fmt::format("         and {} more\n", shown - kNumbersShownMax);
  for (const TimedNumberAgain& number : cell.timed) {
    if (number.inside) continue;
    out += fmt::format("         {}: {:.0f} ns here, expected in {:.0f} to {:.0f}\n", number.name,
                       number.again_ns, number.low_ns, number.high_ns);
  }
}

struct Totals {
  std::array<std::uint64_t, 3> cells = {};  // by verdict
  std::uint64_t timed_count = 0, inside_count = 0;
};

Totals totals_of(const Reproduction& reproduction) {
  Totals totals;
  for (const CellAgain& cell : reproduction.cells) {
    ++totals.cells[static_cast<std::size_t>(cell.verdict)];
    totals.timed_count += cell.timed.size();
    totals.inside_count += count_of(cell.timed, &TimedNumberAgain::inside);
  }
  return totals;
}

OrderedJson json_of(const CellAgain& cell) {
  OrderedJson agree = OrderedJson::array();
  OrderedJson differ = OrderedJson::array();
  for (const ExactAgain& number : cell.exact) {
    if (number.agrees) {
      agree.push_back(number.name);
    } else {
      differ.push_back(
          {{"number", number.name}, {"published", number.stored}, {"here", number.again}});
    }
  }
  OrderedJson timed = OrderedJson::array();
  for (const TimedNumberAgain& number : cell.timed) {
    timed.push_back({{"number", number.name},
                     {"low_ns", number.low_ns},
                     {"high_ns", number.high_ns},
                     {"here_ns", number.again_ns},
                     {"inside", number.inside}});
  }
  constexpr std::array<const char*, 3> kNames{"agrees", "differs", "not_run"};
  return {{"cell_id", cell.key.id()},
          {"workload", cell.key.workload},
          {"allocator", cell.key.allocator},
          {"conf", cell.key.conf},
          {"device", cell.key.device},
          {"capacity", cell.key.capacity},
          {"seed", cell.key.seed},
          {"verdict", kNames[static_cast<std::size_t>(cell.verdict)]},
          {"reason", cell.reason},
          {"exact_agree", agree},
          {"exact_differ", differ},
          {"timed", timed}};
}

}  // namespace

std::string_view to_string(CellVerdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}

std::string render_reproduction(const Reproduction& reproduction) {
  std::string out;
  for (const CellAgain& cell : reproduction.cells) append_cell(out, cell);
  for (const std::string& note : reproduction.notes) out += "note: " + printable(note) + "\n";
  const Totals totals = totals_of(reproduction);
  out += fmt::format("{} of {} cells agree in every exact number, {} differ, {} were not run",
                     totals.cells[0], reproduction.cells.size(), totals.cells[1], totals.cells[2]);
  if (totals.timed_count > 0) {
    out += fmt::format(
        "; {} of {} timed numbers lie in their interval (95 % are expected to on the "
        "same machine)",
        totals.inside_count, totals.timed_count);
  }
  return out + "\n";
}

std::string render_reproduction_json(const Reproduction& reproduction) {
  const Totals totals = totals_of(reproduction);
  OrderedJson cells = OrderedJson::array();
  for (const CellAgain& cell : reproduction.cells) cells.push_back(json_of(cell));
  const OrderedJson json = {{"kind", "reproduction"},
                            {"schema_version", kSchemaVersion},
                            {"exit_code", static_cast<int>(exit_code_of(reproduction))},
                            {"complete", reproduction.complete},
                            {"agree_count", totals.cells[0]},
                            {"differ_count", totals.cells[1]},
                            {"not_run_count", totals.cells[2]},
                            {"timed_count", totals.timed_count},
                            {"timed_inside_count", totals.inside_count},
                            {"notes", reproduction.notes},
                            {"cells", cells}};
  return json_text(json, 1) + "\n";
}

}  // namespace allocmark
