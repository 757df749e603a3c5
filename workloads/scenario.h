// Scenarios: small text files that name a workload and the conditions it runs under, found at run
// time below scenarios/<intent>/<name>.toml in the data folder. Adding one is adding a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/trace/data_folder.h"

namespace allocmark {

struct Scenario {
  std::string name;     // the file's name without .toml
  std::string intent;   // the folder's name: what the scenario is for
  std::string summary;  // the first line, "# what it stresses"
  std::string path;
  std::string workload;  // for open_workload; never a scenario's name
  std::vector<std::uint64_t> seeds = {1};
  std::vector<std::string>
      capacities;  // as --capacity reads them: "1.05x", "8GiB"; empty: the command line decides
  std::string on_oom = "skip";  // "skip", "stop" or "retry-after-sync"
  std::vector<std::string>
      confs;  // config strings worth comparing; empty: the command line decides
};

[[nodiscard]] std::vector<NamedFile> scenario_files();

// Reads one file. Throws UsageError with file, line and the nearest key.
[[nodiscard]] Scenario read_scenario(const std::string& path);

// By name. Throws UsageError with the nearest names.
[[nodiscard]] Scenario load_scenario(std::string_view name);

}  // namespace allocmark
