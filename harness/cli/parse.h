// What the options of each command hold, as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace allocmark {

struct ListCommand {
  std::string format = "table";
  std::string what;  // "workloads", "allocators", "scenarios", "devices", "suites"; empty = all
};

// How two sides take turns.
struct InterleaveSettings {
  std::uint32_t round_count = 16;
  std::uint32_t round_count_max = 48;
  std::uint64_t order_seed = 1;
  std::string turns = "pass";  // or "process"
};

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
  std::string shard;  // empty = all
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
  InterleaveSettings interleave = {};
  std::string calibration;  // file for the intervals of a repeat; empty = the default
  std::string policy;       // of the comparison of an A/B run; a file, empty = the built-in one
  std::string effect_min;   // "3%"; empty = the policy's
  std::vector<std::string> argv;  // the whole command line, for the results file
};

struct TraceCommand {
  std::string action;               // "summary", "convert", "validate", "generate"
  std::vector<std::string> inputs;  // workloads or trace files
  std::string output;
  bool force = false;  // replace `output`
  std::uint64_t seed = 1;
};

struct ExplainCommand {
  std::string format = "table";
  std::optional<std::string> conf;
  std::string allocator = "caching";
  std::string pytorch;  // the release whose rules are asked about; empty = the newest
};

struct ReportCommand {
  std::string folder;
  std::string format;                  // empty = write report.md and its companions into the folder
  std::string latex;                   // LaTeX tables go there; empty = none
  bool force = false;                  // replace that file
  std::string svg;                     // a folder for charts; empty = none
  bool html = true;                    // report.html, where python3 and its packages are there
  std::vector<std::string> baselines;  // runs to hold it against
  std::string policy, calibration;     // files, as of 'compare'; empty = none
};

struct BundleCommand {
  std::string folder;
  std::string out;                     // the archive
  bool force = false;                  // replace it
  std::vector<std::string> baselines;  // at most one
  std::string policy, calibration;     // files, as of 'compare'; empty = none
  std::string key;                     // to sign it with; empty = it is not signed
};

struct CheckCommand {
  std::string bundle;  // an archive, or the folder it was unpacked to
  std::string format = "table";
  std::string signers;  // one of them must have signed it; empty = nobody need
  bool rerun = false;
  double seconds = 20;
};

struct CompareCommand {
  std::vector<std::string> runs;    // BASE and NEW; or runs of the same thing
  std::string calibrate;            // the file to write a calibration to; empty = compare
  std::string calibration, policy;  // files; empty = none, and the built-in policy
  std::string effect_min;           // "3%"; empty = the policy's
  std::string scope;                // "exact" or "timed"; empty = the policy's
  std::string format = "table";
  std::string out;     // a file for the format; empty = print it
  bool force = false;  // replace what --out and --calibrate name
  bool details = false, all = false, no_calibration = false;
  // Run suspects again, both sides in turn.
  bool confirm = false;
  std::string base_program, new_program;  // empty = what the run's plan names
  std::string confirm_out;                // empty = beside NEW
  std::optional<std::uint32_t> pass_count;
  std::uint32_t job_count = 1;
  InterleaveSettings interleave = {};
  std::vector<std::string> argv;
};

struct QualifyCommand {
  std::string level = "quick";
  std::string device = "all";
  std::uint32_t gpu_count = 0;       // simulated; 0 = one, or what SIMCUDA_DEVICES says
  std::string thresholds, baseline;  // files; empty = what ships
  std::string format = "table";
  std::string out;  // folder; empty = none
  double time_limit_s = 120;
  double seconds = 0;        // instead of the level's; 0 = the level's
  double time_budget_s = 0;  // for everything; 0 = none
  std::string fail_on = "fail";
  std::string node;  // its name in reports; empty = the host's
  bool anonymous = false;
  bool one_line = false;
  bool print_thresholds = false;
  std::vector<std::string> argv;  // the whole command line, for the results file
};

struct ProfileCommand {
  std::string device = "cuda:0";
  std::string out;                 // the file to write
  bool force = false;              // replace it
  std::uint64_t repeat_count = 8;  // of every block of calls
  std::vector<std::string> argv;   // of the program, as above
};

struct ParityCommand {
  std::string trace;                 // a workload or trace file
  std::vector<std::string> goldens;  // files, folders, archives
  std::optional<std::string> conf;   // none = from the golden's name
  bool device_addresses = false;     // simcuda's own addresses instead of the recorded ones
  bool verbose = false;              // a line for every golden, not only for those that differ
  // Against PyTorch's own allocator instead of goldens; `trace` is then "random" for programs made
  // from `seed`.
  bool live = false;
  std::uint64_t seed = 1;
  std::uint64_t operation_count = 1'000'000;
  std::string limit;        // memory limit of both; empty = none
  std::string answers;      // print what this allocator answers to a live program; empty = compare
  std::string pytorch;      // the release; empty = the goldens', or that of the plugin of `torch`
  std::string save_folder;  // for the shortest programs that differ; empty = none
};

struct FidelityCommand {
  std::string reference;           // a recorded trace: its name, or a file
  std::string workload;            // held against it; empty = the one that the recording ships with
  std::vector<std::string> confs;  // of the replays; empty = the three of the targets
  std::uint64_t seed = 1;
  std::string format = "table";
  std::string out;   // folder for pages and numbers; empty = none
  bool all = false;  // every recording that ships
};

}  // namespace allocmark
