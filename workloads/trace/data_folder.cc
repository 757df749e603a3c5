#include "workloads/trace/data_folder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace allocmark {

namespace fs = std::filesystem;

std::string workload_data_folder() {
  std::error_code ignored;
  const char* chosen = std::getenv("ALLOCMARK_DATA");
  if (chosen != nullptr && *chosen != '\0') {
    if (fs::is_directory(chosen, ignored)) return chosen;
    throw FileError({.what = "the workload data folder does not exist",
                     .where = "environment variable ALLOCMARK_DATA",
                     .wanted = "a folder that holds recorded/ and scenarios/",
                     .got = chosen,
                     .next = "Unset it to use the data that ship with the suite"});
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = program.parent_path().parent_path() / "share/allocmark/workloads";
  if (fs::is_directory(installed, ignored)) return installed.string();
  throw FileError({.what = "the workload data folder is missing",
                   .where = installed.string(),
                   .wanted = "a folder that holds recorded/ and scenarios/",
                   .next = "Set ALLOCMARK_DATA to the folder workloads/ of the source tree"});
}

std::vector<NamedFile> recorded_traces() {
  std::vector<NamedFile> result;
  std::error_code failure;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(workload_data_folder() + "/recorded", failure)) {
    const std::string file_name = entry.path().filename().string();
    const std::size_t suffix = file_name.find(".ops.csv");
    if (suffix == std::string::npos || file_name.ends_with(".part")) continue;
    result.push_back({.name = file_name.substr(0, suffix), .path = entry.path().string()});
  }
  std::ranges::sort(result, {}, &NamedFile::name);
  return result;
}

}  // namespace allocmark
