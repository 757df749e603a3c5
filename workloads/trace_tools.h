// What `allocmark trace ...` and `allocmark list` do; the command line only parses. Errors are
// thrown.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

// Opens what a person typed: a workload (see open_workload), or the path of a trace file, with or
// without `file:`.
[[nodiscard]] std::unique_ptr<EventSource> open_path_or_workload(std::string_view text,
                                                                 std::uint64_t seed);

// `trace summary WORKLOAD`: prints the summary; returns the exit code.
int trace_summary(std::string_view path_or_workload, std::uint64_t seed, std::FILE* out);

// `trace convert FROM TO` and `trace generate WORKLOAD TO`: writes the events to the file TO,
// packed by its suffix.
int trace_convert(std::string_view path_or_workload, const std::string& path_to, std::uint64_t seed,
                  std::FILE* out);

// `trace validate PATH`: reads the whole file under every rule.
int trace_validate(const std::string& path, std::FILE* out);

struct WorkloadListing {
  std::string name;
  std::string kind;     // "generator" or "recorded"; of a scenario the folder, its intent
  std::string summary;  // one line
};

// For `list workloads` (generators and recorded traces) and `list scenarios` (by folder, then
// name).
[[nodiscard]] std::vector<WorkloadListing> list_workloads();
[[nodiscard]] std::vector<WorkloadListing> list_scenarios();

}  // namespace allocmark
