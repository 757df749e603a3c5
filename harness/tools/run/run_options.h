// What the options of 'run' hold, as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "harness/core/run/file_marks.h"
#include "harness/shell/pages/comparison_options.h"

namespace allocmark {

struct RunCommand {
  std::string suite;     // empty = none given
  std::string scenario;  // empty = none given
  std::vector<std::string> workloads, allocators, confs, capacities;
  std::string device = "auto";
  std::string kernels;  // of the device; empty = the trace's
  std::string seeds;    // empty = 1
  std::string on_oom;   // empty = skip
  std::optional<std::uint32_t> pass_count;
  std::string pass_order;  // "rounds" or "cells"; empty = the device's
  std::optional<std::uint32_t> job_count;
  std::uint32_t gpu_count = 0;  // that cells are dealt out to; 0 = all run on the device
  std::string shard;            // empty = all
  std::uint64_t timeout_s = 600;
  std::string out;  // empty = a new folder under allocmark-results
  std::string format = "table";
  std::string placements_folder;  // for a golden of every cell; empty = none
  bool resume = false, dry_run = false, allow_debug = false, no_verify = false;
  std::string verify = "edges";
  bool timeline = false;               // timelines/ in the results folder
  bool html = true;                    // report.html, when the run has ended
  std::string soak_for;                // "8h"; empty = a few passes
  std::string until_width;             // "5%"; empty = a fixed number of passes
  std::uint32_t pass_count_max = 200;  // with until_width
  // Two programs, allocators or config strings to run in turn; empty = none.
  std::vector<std::string> ab = {};
  std::vector<std::string> untimed = {};  // workloads of further cells of an A/B run
  InterleaveSettings interleave = {};
  std::string calibration;  // file for the intervals of a repeat; empty = the default
  std::string policy;       // of the comparison of an A/B run; a file, empty = the built-in one
  std::string effect_min;   // "3%"; empty = the policy's
  std::vector<std::string> argv;  // the whole command line, for the results file
};

// Says on stderr which files of config strings were replaced while the cells ran: their numbers are
// of two builds. False where none was.
[[nodiscard]] bool say_changed_files(const std::vector<FileMark>& marks);

// What 'run' does, and the part of it that --ab asks for.
[[nodiscard]] ExitCode run_command(const RunCommand& command);
[[nodiscard]] ExitCode ab_command(const RunCommand& command);

}  // namespace allocmark
