#include "harness/tools/capture/captured_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "workloads/trace/trace_reader.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr InputKind kMapsInput{.name = "a list of mappings", .size_bytes_max = 256 * kMiB};

// The mappings of all processes that we may look at: who has a file mapped may still write to it,
// and would be ended by a signal if the file became shorter.
std::string all_mappings() {
  std::string text;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    try {
      text += read_file(entry.path().string() + "/maps", kMapsInput);
    } catch (const FileError&) {
      // It has ended, or is another user's.
    }
  }
  return text;
}

// The whole rows of a file whose writer ended without closing it.
struct WholeRows {
  std::uint64_t size_bytes = 0;
  std::map<std::string, std::string> ends{};  // rows that end what is begun, by operation and pool

  void add(std::string_view row) {
    size_bytes += row.size() + 1;
    const std::size_t pool_at = std::min(row.find(','), row.size());
    const std::string operation(row.substr(0, pool_at));
    if (!operation.starts_with("pool_") && !operation.starts_with("capture_")) return;
    const std::size_t flag_at = std::min(row.find(',', pool_at + 1), row.size());
    const std::string pool(row.substr(pool_at, flag_at - pool_at));
    // In the order of their names captures end before their pools.
    if (operation == "capture_begin") {
      ends["capture" + pool] = "capture_end" + pool + std::string(row.substr(flag_at));
    } else if (operation == "pool_begin") {
      ends["pool" + pool] = "pool_end" + pool + ",0,0,";
    } else if (operation == "capture_end" || operation == "pool_end") {
      ends.erase(operation.substr(0, operation.find('_')) + pool);
    }
  }
};

// Behind the rows of an open file stand zeros.
WholeRows whole_rows(const std::string& path) {
  InputFile file(path, kTraceInput);
  std::string buffer(std::size_t{1} << 20, '\0');
  WholeRows rows;
  std::string half_row;
  while (true) {
    const std::size_t count = file.read(buffer);
    const std::string_view read = std::string_view(buffer).substr(0, count);
    const std::string_view text = read.substr(0, std::min(read.find('\0'), read.size()));
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos;
         end = text.find('\n', begin)) {
      half_row += text.substr(begin, end - begin);
      rows.add(half_row);
      half_row.clear();
      begin = end + 1;
    }
    half_row += text.substr(begin);
    if (count < buffer.size() || text.size() < count) return rows;
  }
}

CapturedFile finish_file(const std::string& path, const std::string& mappings) {
  CapturedFile file{.path = path, .summary = {}};
  std::error_code ignored;
  const fs::path absolute = fs::canonical(path, ignored);
  file.in_use = mappings.find(" " + absolute.string() + "\n") != std::string::npos;
  if (file.in_use) return file;
  const WholeRows rows = whole_rows(path);
  std::error_code error;
  if (rows.size_bytes != fs::file_size(path, error) && !error) {
    file.was_cut = true;
    LineFile whole = LineFile::resume(path, rows.size_bytes);
    for (const auto& [what, row] : rows.ends) whole.append(row);
  }
  if (error) {
    throw FileError({.what = "its size cannot be read: " + error.message(), .where = path});
  }
  file.summary = summarize(*open_trace_file(path));
  return file;
}

}  // namespace

std::vector<CapturedFile> finish_captured_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".ops.csv")) paths.push_back(path);
  }
  if (error) {
    throw FileError({.what = "the folder cannot be read: " + error.message(),
                     .where = folder,
                     .wanted = "a folder that 'allocmark capture' wrote"});
  }
  std::ranges::sort(paths);
  const std::string mappings = paths.empty() ? "" : all_mappings();
  std::vector<CapturedFile> files;
  for (const std::string& path : paths) files.push_back(finish_file(path, mappings));
  return files;
}

}  // namespace allocmark
