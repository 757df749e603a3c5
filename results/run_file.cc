// Reads and adds to results.jsonl with plain POSIX calls: a line is one write, so a killed process
// leaves at most its last line cut short.
#include "results/run_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "results/json.h"

namespace allocmark {
namespace {

[[noreturn]] void fail(const std::string& path, std::string what, std::string got,
                       std::string next) {
  throw FileError({.what = std::move(what),
                   .where = path,
                   .wanted = {},
                   .got = std::move(got),
                   .next = std::move(next)});
}

std::string errno_text() { return std::strerror(errno); }

std::string read_whole(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    fail(path, "the results file is a folder", {}, "Give the results.jsonl in it.");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "the results cannot be opened", errno_text(), "Check the path.");
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) fail(path, "the results cannot be read", errno_text(), "Check the disk.");
  return text;
}

// Adds cells so that the last one of a key counts.
class CellSet {
 public:
  explicit CellSet(RunFile& run) : run_(run) {}

  void add(CellResult cell) {
    // By name: a scenario that was edited before the run went on has its last results.
    const auto [place, is_new] = index_by_id_.try_emplace(cell.key.id_by_name(), run_.cells.size());
    if (is_new) {
      run_.cells.push_back(std::move(cell));
    } else {
      run_.cells[place->second] = std::move(cell);
      ++run_.replaced_line_count;
    }
  }

 private:
  RunFile& run_;
  std::unordered_map<std::string, std::size_t> index_by_id_;
};

}  // namespace

RunFile read_run_file(const std::string& path) { return parse_run_file(read_whole(path), path); }

RunFile parse_run_file(std::string_view text, const std::string& path) {
  if (text.empty()) {
    throw UsageError({.what = "the results file is empty",
                      .where = path,
                      .wanted = "the results.jsonl that 'allocmark run' writes",
                      .got = {},
                      .next = "Delete it and run again."});
  }
  RunFile run;
  CellSet cells(run);
  std::uint64_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++line_number;
    const std::size_t newline = text.find('\n', begin);
    const bool ended = newline != std::string_view::npos;
    const std::size_t end = ended ? newline : text.size();
    const std::string_view line(text.data() + begin, end - begin);
    if (!ended && line_number > 1 && !json_line_kind(line)) {
      run.torn = true;
      run.torn_line = line_number;
      break;
    }
    const std::string where = fmt::format("{}:{}", path, line_number);
    if (line_number == 1) {
      run.environment = environment_from_json(line, where);
    } else {
      cells.add(cell_result_from_json(line, where));
    }
    run.whole_bytes = end;
    run.newline_missing = !ended;
    begin = end + 1;
    if (ended) run.whole_bytes = begin;
  }
  return run;
}

RunFileWriter::RunFileWriter(int descriptor, std::string path, std::uint64_t size_bytes)
    : descriptor_(descriptor), path_(std::move(path)), size_bytes_(size_bytes) {}

RunFileWriter::RunFileWriter(RunFileWriter&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      size_bytes_(other.size_bytes_) {}

RunFileWriter::~RunFileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RunFileWriter RunFileWriter::create(const std::string& path, const Environment& environment) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    fail(path, "the results file cannot be created", errno_text(),
         "Choose an output folder that exists and can be written.");
  }
  RunFileWriter writer(descriptor, path, 0);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || status.st_size != 0) {
    fail(path, "the results file exists already", {},
         "Choose another output folder, or go on with the run that is there (resume).");
  }
  writer.append_line(to_json_line(environment));
  return writer;
}

RunFileWriter RunFileWriter::resume(const std::string& path) {
  const RunFile run = read_run_file(path);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) {
    fail(path, "the results file cannot be written", errno_text(), "Check its permissions.");
  }
  RunFileWriter writer(descriptor, path, run.whole_bytes);
  if (run.torn && ::ftruncate(descriptor, static_cast<off_t>(run.whole_bytes)) != 0) {
    fail(path, "the torn last line cannot be cut off", errno_text(), "Check the disk.");
  }
  if (run.newline_missing) writer.append_line({});
  return writer;
}

void RunFileWriter::append(const CellResult& cell) { append_line(to_json_line(cell)); }

void RunFileWriter::append_line(const std::string& line) {
  const std::string bytes = line + '\n';
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::write(descriptor_, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const std::string reason = errno_text();
      // Best effort: if this fails too, the reader takes the rest as a torn line.
      [[maybe_unused]] const int ignored =
          ::ftruncate(descriptor_, static_cast<off_t>(size_bytes_));
      fail(path_, "a result could not be written", reason,
           "Free disk space and resume the run; what was written before is whole.");
    }
    written += static_cast<std::size_t>(count);
  }
  size_bytes_ += bytes.size();
}

}  // namespace allocmark
