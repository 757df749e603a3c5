// What 'allocmark parity' reads: traces as operations, goldens from files, folders and archives.
// Bad files are UsageErrors that name them.
#pragma once

#include <string>
#include <vector>

#include "base/exit_code.h"
#include "harness/tools/parity/parity.h"
#include "workloads/trace/archive.h"

namespace allocmark {

struct ParityCommand {
  std::string trace;                 // a workload or trace file
  std::vector<std::string> goldens;  // files, folders, archives
  std::optional<std::string> conf;   // none = from the golden's name
  bool device_addresses = false;     // simcuda's own addresses instead of the recorded ones
  bool verbose = false;              // a line for every golden, not only for those that differ
  // Against PyTorch's own allocator instead of goldens; `trace` is then "random" for programs made
  // from `seed`.
  bool live = false;
  bool host = false;  // with `live`: the cache of pinned memory
  std::string bfc;    // with `live`: TensorFlow's or XLA's allocator, by its rules; empty = no
  std::uint64_t seed = 1;
  std::uint64_t operation_count = 1'000'000;
  std::string limit;        // memory limit of both; empty = none
  std::string answers;      // print what this allocator answers to a live program; empty = compare
  std::string pytorch;      // the release; empty = the goldens', or that of the plugin of `torch`
  std::string save_folder;  // for the shortest programs that differ; empty = none
};

// The part that --live asks for.
[[nodiscard]] ExitCode live_command(const ParityCommand& command);
// The part that --live --host asks for.
[[nodiscard]] ExitCode host_live_command(const ParityCommand& command);

// The part that --live --bfc asks for.
[[nodiscard]] ExitCode bfc_live_command(const ParityCommand& command);

// A workload or a trace file.
[[nodiscard]] std::vector<Event> read_operations(const std::string& trace);

// The goldens that a path stands for: a file (also packed), the .txt files of a folder, or those in
// a .tar, .tar.gz or .tar.zst archive; by name.
[[nodiscard]] std::vector<ArchiveFile> read_goldens(const std::string& path);

}  // namespace allocmark
