#include "harness/tools/capture/captured_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/input_file.h"
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

// Bytes up to the end of the last whole row. Behind the rows of an open file stand zeros.
std::uint64_t whole_bytes(const std::string& path) {
  InputFile file(path, kTraceInput);
  std::string buffer(std::size_t{1} << 20, '\0');
  std::uint64_t offset = 0;
  std::uint64_t whole = 0;
  while (true) {
    const std::size_t count = file.read(buffer);
    const void* const zero = std::memchr(buffer.data(), '\0', count);
    const std::size_t text_size =
        zero == nullptr ? count
                        : static_cast<std::size_t>(static_cast<const char*>(zero) - buffer.data());
    const std::size_t newline = std::string_view(buffer).substr(0, text_size).rfind('\n');
    if (newline != std::string_view::npos) whole = offset + newline + 1;
    if (count < buffer.size() || zero != nullptr) return whole;
    offset += count;
  }
}

CapturedFile finish_file(const std::string& path, const std::string& mappings) {
  CapturedFile file{.path = path, .summary = {}};
  std::error_code ignored;
  const fs::path absolute = fs::canonical(path, ignored);
  file.in_use = mappings.find(" " + absolute.string() + "\n") != std::string::npos;
  if (file.in_use) return file;
  const std::uint64_t size_bytes = whole_bytes(path);
  std::error_code error;
  if (size_bytes != fs::file_size(path, error) && !error) {
    file.was_cut = true;
    fs::resize_file(path, size_bytes, error);
  }
  if (error) {
    throw FileError({.what = "cannot be cut to its whole rows: " + error.message(),
                     .where = path,
                     .wanted = "",
                     .got = "",
                     .next = ""});
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
                     .wanted = "a folder that 'allocmark capture' wrote",
                     .got = "",
                     .next = ""});
  }
  std::ranges::sort(paths);
  const std::string mappings = paths.empty() ? "" : all_mappings();
  std::vector<CapturedFile> files;
  for (const std::string& path : paths) files.push_back(finish_file(path, mappings));
  return files;
}

}  // namespace allocmark
