#include "harness/tools/parity/parity_input.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "workloads/trace/byte_stream.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

std::vector<ArchiveFile> read_golden_folder(const std::string& path) {
  std::vector<ArchiveFile> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    const std::string file = entry.path().string();
    if (entry.is_regular_file() && entry.path().extension() == ".txt")
      files.push_back({file, read_unpacked(file, kGoldenInput, "the golden is damaged")});
  }
  return files;
}

bool is_tar(const std::string& path) {
  return path.ends_with(".tar") || path.ends_with(".tar.gz") || path.ends_with(".tar.zst");
}

}  // namespace

std::vector<Event> read_operations(const std::string& trace) {
  return caching::parity_events(*open_path_or_workload(trace, 0));
}

std::vector<ArchiveFile> read_goldens(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (!is_folder && !is_tar(path))
    return {{path, read_unpacked(path, kGoldenInput, "the golden is damaged")}};
  std::vector<ArchiveFile> files = is_folder ? read_golden_folder(path) : read_whole_tar(path);
  std::erase_if(files, [](const ArchiveFile& file) { return !file.name.ends_with(".txt"); });
  std::ranges::sort(files, {}, &ArchiveFile::name);
  if (files.empty()) {
    throw UsageError({.what = "there are no goldens here",
                      .where = path,
                      .wanted = "files CONF_CAP.txt",
                      .next = "see allocators/CACHING.md for their format"});
  }
  return files;
}

}  // namespace allocmark
