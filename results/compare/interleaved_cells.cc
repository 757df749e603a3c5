// See interleaved_cells.h.
#include "results/compare/interleaved_cells.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "results/derived.h"

namespace allocmark {

std::vector<RoundPair> CellRounds::pairs() const {
  std::vector<RoundPair> list;
  for (const auto& [round, base] : results[0]) {
    const auto now = results[1].find(round);
    if (now == results[1].end()) continue;
    if (!is_measured(*base.cell) || !is_measured(*now->second.cell)) continue;
    list.push_back({base.cell, now->second.cell, !rounds_apart.contains(round)});
  }
  return list;
}

std::vector<const CellResult*> CellRounds::processes(std::size_t side) const {
  std::vector<const CellResult*> list;
  for (const RoundPair& pair : pairs()) list.push_back(side == 0 ? pair.base : pair.now);
  return list;
}

bool CellRounds::ended_at(const std::vector<std::uint32_t>& looks,
                          std::uint32_t round_count_max) const {
  for (const auto& side : results) {
    for (const auto& [round, result] : side) {
      if (!is_measured(*result.cell)) return true;
    }
  }
  const std::size_t count = pairs().size();
  return results[0].size() == count && results[1].size() == count &&
         (count == round_count_max || std::find(looks.begin(), looks.end(), count) != looks.end());
}

const RoundLine* CellRounds::deviating(std::size_t side) const {
  const auto decisions = [](const CellResult& cell) {
    return std::tie(cell.placement_hash, cell.oom_count, cell.requested_bytes_peak,
                    cell.allocated_bytes_peak, cell.reserved_bytes_peak);
  };
  for (const auto& [round, result] : results[side]) {
    const CellResult& first = *results[side].begin()->second.cell;
    if (is_measured(*result.cell) && decisions(*result.cell) != decisions(first)) return &result;
  }
  return nullptr;
}

const RoundLine* CellRounds::outcome(std::size_t side) const {
  for (const auto& [round, result] : results[side]) {
    if (!is_measured(*result.cell)) return &result;
  }
  // One that decided otherwise, so that the difference is seen.
  if (const RoundLine* const other = deviating(side); other != nullptr) return other;
  return results[side].empty() ? nullptr : &results[side].begin()->second;
}

CellRounds whole_rounds(const InterleavedRun& run, CellRounds rounds,
                        std::deque<CellResult>& kept) {
  for (auto& side : rounds.results) {
    for (auto& [round, line] : side) {
      if (line.cell->is_summary) line.cell = &kept.emplace_back(run.whole.whole(line.index));
    }
  }
  return rounds;
}

std::vector<CellRounds> rounds_by_cell(const InterleavedRun& run, StrayLines& stray) {
  std::array<std::map<std::string, std::size_t>, kSideCount> index_by_id;
  for (std::size_t i = 0; i < run.plan.cells.size(); ++i) {
    index_by_id[0][run.plan.cells[i].base.id()] = i;
    index_by_id[1][run.plan.cells[i].now.id()] = i;
  }
  std::vector<CellRounds> cells(run.plan.cells.size());
  for (std::size_t index = 0; index < run.rounds.size(); ++index) {
    const RoundResult& result = run.rounds[index];
    const auto found = index_by_id.at(result.side).find(result.cell.key.id());
    if (found == index_by_id[result.side].end()) {
      ++stray.unplanned_count;
      continue;
    }
    RoundLine& place = cells[found->second].results[result.side][result.round];
    if (place.cell != nullptr) ++stray.repeated_count;
    place = {.cell = &result.cell, .index = index};
    if (!result.in_turns) cells[found->second].rounds_apart.insert(result.round);
  }
  return cells;
}

}  // namespace allocmark
