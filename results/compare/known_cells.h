// Which cell of a run another run's key names. Flows in: a run's cells; flows out: one of them, and
// in words what was edited between the two.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "results/cell_summary.h"
#include "results/schema.h"

namespace allocmark {

// A run's cells, to be found by another run's keys. Where the two do not say the same of a
// scenario or a trace file, as after an edit or beside older results, its name decides:
// compare_measured() refuses other work.
class KnownCells {
 public:
  explicit KnownCells(std::span<const CellOutline> cells) {
    for (std::size_t index = 0; index < cells.size(); ++index) {
      by_id_[cells[index].key.id()] = index;
      by_name_[cells[index].key.id_by_name()] = index;
      const std::string& allocator = cells[index].key.allocator;
      if (allocator.find('@') != std::string::npos) releases_.insert(allocator);
    }
  }
  // The cell's index.
  [[nodiscard]] std::optional<std::size_t> find(const CellKey& key) const {
    if (const auto found = by_id_.find(key.id()); found != by_id_.end()) return found->second;
    const auto found = by_name_.find(key.id_by_name());
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }
  // Where the cell is there under a release of its allocator alone, the name of that; else empty.
  [[nodiscard]] std::string find_release(CellKey key) const {
    const std::string family = key.allocator + "@";
    for (const std::string& release : releases_) {
      key.allocator = release;
      if (release.starts_with(family) && find(key)) return release;
    }
    return "";
  }

 private:
  std::map<std::string, std::size_t> by_id_, by_name_;
  std::set<std::string> releases_;
};

// "the scenario 'N'" or "the trace file of 'file:PATH'" where both sides say what it was, and not
// the same; else empty.
[[nodiscard]] std::string edited_workload(const CellKey& base, const CellKey& now);

// Why a cell of one side has none on the other.
[[nodiscard]] std::string missing_text(const CellKey& key, const KnownCells& known);

// Why two cells of one name did not do the same.
[[nodiscard]] std::string other_work(const CellResult& base, const CellResult& now);

}  // namespace allocmark
