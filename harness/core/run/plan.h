// The plan of a run: which cells it has. Workloads, allocators, config strings, capacities and
// seeds flow in, as the command line names them; a list of cell keys in a stable order flows out,
// with a line on what was left out. Everything is checked here, before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/run/plan_confs.h"
#include "results/schema.h"

namespace allocmark {

struct PlanWorkload {
  std::string text;             // as given
  bool recorded = false;        // the same events for every seed
  std::string definition = {};  // what the scenarios in it stand for; empty: it names none
  std::string files = {};       // what was in its trace files (hash_trace_files)
  // What `caching` without a release is for it, as "caching@2.11"; empty: the newest. Cells are
  // planned by that name, so that what is stored says which release was simulated.
  std::string caching = {};
};

// The axes of the matrix. Empty `confs` means unset only.
struct PlanRequest {
  std::vector<PlanWorkload> workloads;
  std::vector<std::string> allocators;  // names; "pluggable:PATH" is a name and its config string
  std::vector<std::string> confs;  // "" or "unset"; "caching=KEY:VALUE" is for that allocator alone
  std::vector<std::string> capacities;  // "unlimited", "1.05x", "8GiB"
  std::vector<std::uint64_t> seeds;
  std::string device;
  std::string on_oom = "skip";
};

struct Plan {
  std::vector<CellKey> cells;
  std::vector<std::string> notes;  // for people: what was left out and why
};

// The product of all axes, less the pairs of allocator and conf that do not fit. Throws UsageError
// on an unknown allocator (nearest names), on a conf that no chosen allocator accepts (their
// complaints), on a bad capacity.
[[nodiscard]] Plan make_plan(const PlanRequest& request, const std::vector<PlanAllocator>& known);

// "3/8": the third of eight parts.
struct Shard {
  std::uint64_t index = 0;  // 0-based
  std::uint64_t count = 1;
};
[[nodiscard]] Shard parse_shard(std::string_view text);

// Every count-th cell, so that all parts have the same mix. The parts of one plan are disjoint and
// complete.
[[nodiscard]] std::vector<CellKey> take_shard(const std::vector<CellKey>& cells, Shard shard);

// "3" = seeds 1, 2, 3; "5,9" = these; "5-8" = a range; "7-7" = one.
[[nodiscard]] std::vector<std::uint64_t> parse_seeds(std::string_view text);

}  // namespace allocmark
