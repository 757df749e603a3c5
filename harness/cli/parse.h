// The command line as data. argv flows in; what was asked for flows out, or a UsageError, or the
// text of --help and
// --version. The only place that knows the option parser.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace allocmark {

struct ListCommand {
  std::string what;  // "workloads", "allocators", "scenarios", "devices", "suites"; empty = all
};

struct RunCommand {
  std::string suite;     // empty = none given
  std::string scenario;  // empty = none given
  std::vector<std::string> workloads, allocators, confs, capacities;
  std::string device = "auto";
  std::string seeds;   // empty = 1
  std::string on_oom;  // empty = skip
  std::optional<std::uint32_t> pass_count;
  std::optional<std::uint32_t> job_count;
  std::string shard;  // empty = all
  std::uint64_t timeout_s = 600;
  std::string out;  // empty = a new folder under allocmark-results
  std::string format = "table";
  std::string placements_folder;  // for a golden of every cell; empty = none
  bool resume = false, dry_run = false, allow_debug = false, no_verify = false;
  std::string verify = "edges";
  bool timeline = false;          // timelines/ in the results folder
  std::vector<std::string> argv;  // the whole command line, for the results file
};

struct TraceCommand {
  std::string action;               // "summary", "convert", "validate", "generate"
  std::vector<std::string> inputs;  // workloads or trace files
  std::string output;
  std::uint64_t seed = 1;
};

struct ExplainCommand {
  std::string conf;
  std::string allocator = "caching";
};

struct ReportCommand {
  std::string folder;
  std::string format;  // empty = write report.md and its companions into the folder
  std::string latex;   // LaTeX tables go there; empty = none
  bool html = true;    // report.html, where python3 and its packages are there
};

struct CompareCommand {
  std::vector<std::string> runs;    // BASE and NEW; or runs of the same thing
  std::string calibrate;            // the file to write a calibration to; empty = compare
  std::string calibration, policy;  // files; empty = none, and the built-in policy
  std::string effect_min;           // "3%"; empty = the policy's
  std::string scope;                // "exact" or "timed"; empty = the policy's
  std::string format = "table";
  std::string out;  // a file for the format; empty = print it
  bool all = false, no_calibration = false;
};

struct SpeedCommand {
  std::uint64_t event_count = 100'000'000;  // of the long trace
  std::string workload = "gpt2_train_amp";  // on which caching and torch are compared
  std::string conf;                         // of both
  std::vector<std::string> generate;        // only these are measured: workloads, or "all"
  std::vector<std::string> argv;  // of the program, for starting it again with the right runtime
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

// One of them is set; none where `text` (help or version) is all there is to do.
struct CommandLine {
  std::string text;
  std::optional<ListCommand> list;
  std::optional<RunCommand> run;
  std::optional<TraceCommand> trace;
  std::optional<ExplainCommand> explain;
  std::optional<ReportCommand> report;
  std::optional<CompareCommand> compare;
  std::optional<ParityCommand> parity;
  std::optional<SpeedCommand> speed;
  std::optional<FidelityCommand> fidelity;
};

[[nodiscard]] CommandLine parse_command_line(int argc, const char* const* argv,
                                             const std::string& version);

}  // namespace allocmark
