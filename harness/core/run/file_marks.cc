// See file_marks.h.
#include "harness/core/run/file_marks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include "base/error.h"
#include "base/input_file.h"
#include "harness/core/replay/kernel_source.h"

namespace allocmark {
namespace {

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

bool is_regular(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// A pipe.
bool is_read_once(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && !is_regular(path);
}

// A 64-bit hash that tells a changed file from the one before: FNV-1a over eight bytes at a time,
// as 16 hexadecimal digits. It is fast, since traces and programs are large, and protects against
// no one: sha256.h does. Empty of a file without bytes. Throws FileError where it cannot be read.
std::string hash_of_file(const std::string& path, const InputKind& kind) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  std::uint64_t size_bytes = 0;
  InputFile file(path, kind);
  std::array<char, 1 << 16> block{};
  while (const std::size_t count = file.read(block)) {
    std::fill(block.begin() + static_cast<std::ptrdiff_t>(count), block.end(), '\0');
    for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, block.data() + at, sizeof word);
      hash = (hash ^ word) * 0x100000001B3U;
      hash ^= hash >> 29;
    }
    size_bytes += count;
  }
  return size_bytes > 0 ? fmt::format("{:016x}", hash ^ size_bytes) : "";
}

}  // namespace

FileMark mark_file(const std::string& path) {
  FileMark mark{.path = absolute_path(path), .hash = ""};
  try {
    mark.hash = hash_of_file(path, kProgramInput);
  } catch (const FileError&) {
    // As it says: no hash.
  }
  return mark;
}

std::vector<FileMark> mark_conf_files(const std::vector<CellKey>& cells) {
  std::set<std::string> paths;
  for (const CellKey& key : cells) {
    std::string word;
    for (const char c : key.conf_text() + ",") {
      if (std::string_view(",:;[]").find(c) == std::string_view::npos) {
        word += c;
        continue;
      }
      if (!word.empty() && is_regular(word)) paths.insert(word);
      word.clear();
    }
  }
  std::vector<FileMark> marks;
  for (const std::string& path : paths) marks.push_back(mark_file(path));
  return marks;
}

std::vector<FileMark> mark_trace_files(const std::vector<CellKey>& cells) {
  std::set<std::string> workloads;
  std::set<std::string> paths;
  std::vector<FileMark> marks;
  for (const CellKey& key : cells) {
    if (key.workload_files.empty() || !workloads.insert(key.workload_text()).second) continue;
    std::string_view hashes = key.workload_files;
    for (const std::string& path : trace_files_of_workload(key.workload_text())) {
      const std::string_view hash = hashes.substr(0, hashes.find(','));
      hashes.remove_prefix(std::min(hash.size() + 1, hashes.size()));
      if (!hash.empty() && paths.insert(path).second) {
        marks.push_back({.path = absolute_path(path), .hash = std::string(hash)});
      }
    }
  }
  return marks;
}

std::vector<FileMark> mark_files(const std::vector<CellKey>& cells) {
  std::vector<FileMark> marks = mark_conf_files(cells);
  for (FileMark& mark : mark_trace_files(cells)) marks.push_back(std::move(mark));
  return marks;
}

std::vector<std::string> changed_since(const std::vector<FileMark>& marks) {
  std::vector<std::string> changed;
  for (const FileMark& mark : marks) {
    if (mark_file(mark.path).hash != mark.hash) changed.push_back(mark.path);
  }
  return changed;
}

void refuse_pipes(std::string_view workload) {
  for (const std::string& path : trace_files_of_workload(workload)) {
    if (!is_read_once(path)) continue;
    throw UsageError({.what = "every cell reads its trace anew, and this file can be read once",
                      .where = path,
                      .wanted = "a regular file",
                      .got = "a pipe or a device",
                      .next = "write it to a file first: cat PIPE > job.csv"});
  }
}

std::string hash_trace_files(std::string_view workload) {
  std::string hashes;
  for (const std::string& path : trace_files_of_workload(workload)) {
    if (!hashes.empty()) hashes += ',';
    hashes += hash_of_file(path, kTraceInput);
  }
  return hashes;
}

}  // namespace allocmark
