#include "tests/allocators/caching/golden_files.h"

#include <filesystem>
#include <utility>

#include "workloads/trace/archive.h"

namespace allocmark::caching {

std::map<std::string, std::string> read_goldens(const std::string& program) {
  const std::string folder = "tests/golden/caching/";
  const bool is_gzip = std::filesystem::exists(folder + program + ".tar.gz");
  std::map<std::string, std::string> files;
  for (ArchiveFile& file : read_whole_tar(folder + program + (is_gzip ? ".tar.gz" : ".tar.zst")))
    files[file.name] = std::move(file.text);
  return files;
}

}  // namespace allocmark::caching
