// One cell: a workload replayed on one backend under one config string and capacity, in the calling
// process and on its current CUDA device. A specification flows in; a filled CellResult flows out,
// whatever goes wrong. The cell first checks (an untimed pass under a shadow heap, and one that
// looks into blocks), then times (passes with a recorder).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "harness/core/check/verify_level.h"
#include "harness/core/measure/host_scale.h"
#include "harness/job/pass_turns.h"
#include "results/schema.h"

namespace allocmark {

struct CellSpec {
  CellKey key;
  std::uint32_t pass_count = 3;  // timed passes, each on a fresh instance of the backend; 0 = none
  // Above 0: pass_count is where the looks begin, and passes go on until the intervals of
  // allocate's P50 and P99 are at most this wide (results/compare/width.h), up to pass_count_max.
  double width_max = 0;
  std::uint32_t pass_count_max = 0;
  // What is checked; peaks and OOM causes are collected either way, in a pass that does not look
  // into blocks.
  VerifyLevel verify = VerifyLevel::Edges;
  // The timed passes run on the processor that is least disturbed when each begins: for cells that
  // run alone.
  bool quiet_cpu = false;
  // Other cells run at the same time, on the same GPU: what it has in use is not this cell's alone.
  bool shares_device = false;
  // The process waits for its turn before the checked pass and before each timed one, and passes go
  // on until it is told that there is no further one; pass_count and width_max are ignored.
  bool takes_turns = false;
  // The process waits for its turn before each timed pass but the first, so that a run can spread
  // the passes of its cells over its length; pass_count and width_max say how many there are.
  bool in_rounds = false;
  HostTarget host_target = {};
  bool record = true;  // false: the timed passes read no clock per call, and latencies stay empty
  // False: neither the speed of the host nor what the harness itself takes is measured, for who
  // looks at modelled times only.
  bool times_host = true;
  std::uint64_t timeout_s =
      0;  // for the parent process, which ends a cell that takes longer; 0 = no limit
  std::string placements_path;  // golden of the checked pass (placement_recorder.h); empty = none
  std::string timeline_path;    // JSON file of the memory over the checked pass; empty = none
  // What an earlier cell of the same workload found (CellResult::packed_bytes); 0: the cell looks
  // itself.
  std::uint64_t packed_bytes = 0;
  friend bool operator==(const CellSpec&, const CellSpec&) = default;
};

// Runs the cell. Every expected problem (bad workload or config string, capacity too small, out of
// memory, a broken rule, a CUDA error) is a status with a reason in the result; nothing is thrown.
// The device is chosen by the caller (the current CUDA device; simcuda in front of the process or
// not); key.device is only checked against it. `turns` is where a cell waits that takes turns or is
// in rounds; else null. `on_part` gets the result so far of a cell in rounds, before some of its
// waits: after 1, 2, 4, 8 ... passes, so that all the lines together stay short.
using PartSink = std::function<void(const CellResult&)>;
[[nodiscard]] CellResult run_cell(const CellSpec& spec, PassTurns* turns = nullptr,
                                  const PartSink& on_part = {});

}  // namespace allocmark
