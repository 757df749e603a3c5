#include "harness/core/search/open_job.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "harness/core/replay/kernel_source.h"

namespace allocmark {

Recording open_job(const std::string& workload, std::uint64_t seed) {
  constexpr std::string_view kFile = "file:";
  std::error_code ignored;
  if (workload.starts_with(kFile)) {
    const std::string path = workload.substr(kFile.size());
    if (std::filesystem::is_regular_file(path, ignored)) return open_recording(path);
  }
  return {.events = open_workload_with_kernels(workload, seed), .notes = {}};
}

}  // namespace allocmark
