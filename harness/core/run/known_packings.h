// What cells found of their workloads, told to later cells of the same: the search for a packing
// takes longer than many cells. Results flow in, specifications get what is known.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "harness/core/cell/cell.h"
#include "results/schema.h"

namespace allocmark {

class KnownPackings {
 public:
  // `program_path`: what ran the cell. Another build may search otherwise and is not told.
  void note(const std::string& program_path, const CellResult& cell) {
    if (cell.packed_bytes) bytes_[name_of(program_path, cell.key)] = *cell.packed_bytes;
  }
  // Leaves the specification as it is where nothing is known.
  void tell(const std::string& program_path, CellSpec& spec) const {
    const auto found = bytes_.find(name_of(program_path, spec.key));
    if (found != bytes_.end()) spec.packed_bytes = found->second;
  }

 private:
  using Name = std::tuple<std::string, std::string, std::string, std::uint64_t>;
  static Name name_of(const std::string& program_path, const CellKey& key) {
    return {program_path, key.workload_text(), key.workload_files, key.seed};
  }
  std::map<Name, std::uint64_t> bytes_;
};

}  // namespace allocmark
